#pragma once

#include "profiler/run/cuda/owned.hpp"

namespace trainyard::cuda {

/// Kernels on one GPU that take a given time, in place of ops that compute nothing.
///
/// The resolution of %globaltimer differs between GPUs: 32 ns on some, 1 us on others. If it is over 100 ns, launch()
/// counts cycles of the SM instead, at the rate measured when the kernels were loaded; this is exact while the clock is
/// constant. Otherwise launch() is exact to one timer step, as are mark() and wait_since(), which are separate kernels.
class DelayKernels {
 public:
  /// Loads the kernels and measures the timer, in a few milliseconds. Throws as load_kernels().
  DelayKernels(const Tables& tables, int gpu);
  /// Occupies the stream for this time.
  void launch(double ns, Stream stream) const;
  /// Occupies the stream from mark() until `ns` later, whatever runs in between. `word`: 8 bytes of the GPU's memory
  /// that only this stream uses.
  void mark(void* word, Stream stream) const;
  void wait_since(void* word, double ns, Stream stream) const;

  /// Resolution of the GPU's timer.
  double tick_ns() const { return tick_ns_; }

 private:
  void launch_one(void* kernel, void** arguments, Stream stream) const;
  void time_the_timer(void* kernel);

  const Tables& tables_;
  Owned kernels_;
  void *delay_ = nullptr, *cycles_ = nullptr, *mark_ = nullptr, *since_ = nullptr;
  double tick_ns_ = 0, cycles_per_ns_ = 0;
};

}  // namespace trainyard::cuda
