#pragma once

#include "profiler/run/cuda/owned.hpp"

namespace trainyard::cuda {

/// Kernels on one GPU that take a given time: they stand for ops that compute nothing.
class DelayKernels {
 public:
  /// Loads them. Throws as load_kernels().
  DelayKernels(const Tables& tables, int gpu);
  /// Occupies the stream for so long.
  void launch(double ns, Stream stream) const;

 private:
  const Tables& tables_;
  Owned kernels_;
  void* function_ = nullptr;
};

}  // namespace trainyard::cuda
