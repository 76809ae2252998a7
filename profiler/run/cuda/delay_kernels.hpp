#pragma once

#include "profiler/run/cuda/errors.hpp"

namespace trainyard::cuda {

/// Kernels on one GPU that take a given time: they stand for ops that compute nothing.
class DelayKernels {
 public:
  /// Compiles for the GPU at hand and loads. Throws MissingError without NVRTC, CudaError.
  DelayKernels(const Tables& tables, int gpu);
  /// Occupies the stream for so long.
  void launch(double ns, Stream stream) const;

 private:
  const Tables& tables_;
  void* function_ = nullptr;
};

}  // namespace trainyard::cuda
