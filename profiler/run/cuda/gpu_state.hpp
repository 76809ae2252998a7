#pragma once

#include <map>
#include <vector>

#include "profiler/run/cuda/api.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::cuda {

/// Clocks, power and throttle reasons of a GPU as NVML tells them now; empty without it.
Details gpu_state(const Tables& tables, int gpu);

/// SM clocks of GPUs while steps ran, by NVML. It numbers all GPUs of the machine, in the order of their buses: where
/// CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER say otherwise, give both the same.
class ClockLog {
 public:
  explicit ClockLog(const Tables& tables);
  ~ClockLog();
  ClockLog(ClockLog&&) = delete;

  /// The GPU's clock in MHz, now; 0: not known.
  unsigned read(int gpu) const;
  /// Reads and keeps it. False where it is below nine tenths of the median of what was kept: the GPU is throttled, or
  /// has only begun to work.
  bool usual(int gpu);
  /// "sm_clock_mhz": the median of what was kept, "least_sm_clock_mhz"; nothing where nothing was.
  void tell(int gpu, Details& details) const;

 private:
  const Nvml& nvml_;
  bool there_ = false;
  std::map<int, std::vector<unsigned>> kept_;
};

}  // namespace trainyard::cuda
