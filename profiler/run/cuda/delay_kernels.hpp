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
  /// Occupies the stream from mark() until so long after it, whatever else it does meanwhile. `word`: 8 bytes of the
  /// GPU's memory, of the stream's own.
  void mark(void* word, Stream stream) const;
  void wait_since(void* word, double ns, Stream stream) const;

 private:
  void launch_one(void* kernel, void** arguments, Stream stream) const;

  const Tables& tables_;
  Owned kernels_;
  void *delay_ = nullptr, *mark_ = nullptr, *since_ = nullptr;
};

}  // namespace trainyard::cuda
