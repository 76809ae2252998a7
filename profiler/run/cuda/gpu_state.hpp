#pragma once

#include <map>
#include <vector>

#include "profiler/run/cuda/api.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::cuda {

/// Current clocks, power and throttle reasons of a GPU by NVML; empty without NVML.
Details gpu_state(const Tables& tables, int gpu);

/// SM clocks of GPUs while steps ran, by NVML. NVML numbers all GPUs of the machine, in the order of their buses. If
/// CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER differ from that, set them so that both numberings agree.
class ClockLog {
 public:
  explicit ClockLog(const Tables& tables);
  ~ClockLog();
  ClockLog(ClockLog&&) = delete;

  /// Current clock of the GPU in MHz; 0: unknown.
  unsigned read(int gpu) const;
  /// Reads and records the clock. False if it is below nine tenths of the median of the records: the GPU is throttled,
  /// or has only begun to work.
  bool usual(int gpu);
  /// Adds "sm_clock_mhz" (median of the records) and "least_sm_clock_mhz"; nothing if there are no records.
  void tell(int gpu, Details& details) const;

 private:
  const Nvml& nvml_;
  bool there_ = false;
  std::map<int, std::vector<unsigned>> kept_;
};

}  // namespace trainyard::cuda
