#pragma once

#include "profiler/run/cuda/owned.hpp"

namespace trainyard::cuda {

/// Kernels on one GPU that take a given time: they stand for ops that compute nothing.
///
/// GPUs differ in how fine their %globaltimer counts: 32 ns on some, a microsecond on others. Where its step is over
/// 100 ns, launch() counts cycles of the SM instead, at the rate found when the kernels were loaded: exact as long as
/// the clock stays, within a step otherwise. mark() and wait_since(), which run apart, are exact to a step.
class DelayKernels {
 public:
  /// Loads them, and times the timer, a few milliseconds. Throws as load_kernels().
  DelayKernels(const Tables& tables, int gpu);
  /// Occupies the stream for so long.
  void launch(double ns, Stream stream) const;
  /// Occupies the stream from mark() until so long after it, whatever else it does meanwhile. `word`: 8 bytes of the
  /// GPU's memory, of the stream's own.
  void mark(void* word, Stream stream) const;
  void wait_since(void* word, double ns, Stream stream) const;

  /// The least step of the GPU's timer.
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
