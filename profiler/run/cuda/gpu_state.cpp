#include "profiler/run/cuda/gpu_state.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "trainyard/core/statistics.hpp"

namespace trainyard::cuda {

Details gpu_state(const Tables& tables, int gpu) {
  Details state;
  const Nvml& nvml = tables.nvml;
  if (!nvml.nvmlInit_v2 || nvml.nvmlInit_v2() != 0) return state;
  void* device = nullptr;
  if (nvml.nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(gpu), &device) == 0) {
    unsigned value = 0;
    for (const auto& [name, type] : {std::pair{"sm_clock_mhz", 1}, std::pair{"memory_clock_mhz", 2}})
      if (nvml.nvmlDeviceGetClockInfo(device, type, &value) == 0) state[name] = std::to_string(value);
    if (nvml.nvmlDeviceGetPowerUsage(device, &value) == 0) state["power_mw"] = std::to_string(value);
    unsigned long long reasons = 0;
    if (nvml.nvmlDeviceGetCurrentClocksEventReasons &&
        nvml.nvmlDeviceGetCurrentClocksEventReasons(device, &reasons) == 0)
      state["throttle_reasons"] = std::to_string(reasons);
  }
  std::array<char, 96> driver{};
  if (nvml.nvmlSystemGetDriverVersion(driver.data(), static_cast<unsigned>(driver.size())) == 0)
    state["driver"] = driver.data();
  nvml.nvmlShutdown();
  return state;
}

ClockLog::ClockLog(const Tables& tables) : nvml_(tables.nvml) {
  there_ = nvml_.nvmlInit_v2 && nvml_.nvmlInit_v2() == 0;
}

ClockLog::~ClockLog() {
  if (there_) nvml_.nvmlShutdown();
}

unsigned ClockLog::read(int gpu) const {
  constexpr int kSmClock = 1;
  void* device = nullptr;
  unsigned megahertz = 0;
  if (!there_ || nvml_.nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(gpu), &device) != 0) return 0;
  return nvml_.nvmlDeviceGetClockInfo(device, kSmClock, &megahertz) == 0 ? megahertz : 0;
}

bool ClockLog::usual(int gpu) {
  const unsigned now = read(gpu);
  if (now == 0) return true;
  std::vector<unsigned>& kept = kept_[gpu];
  kept.push_back(now);
  return now * 10 >= upper_quantile_of(kept) * 9;
}

void ClockLog::tell(int gpu, Details& details) const {
  const auto kept = kept_.find(gpu);
  if (kept == kept_.end()) return;
  details["sm_clock_mhz"] = std::to_string(upper_quantile_of(kept->second));
  details["least_sm_clock_mhz"] = std::to_string(std::ranges::min(kept->second));
}

}  // namespace trainyard::cuda
