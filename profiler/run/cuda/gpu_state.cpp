#include "profiler/run/cuda/gpu_state.hpp"

#include <array>
#include <string>
#include <utility>

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

}  // namespace trainyard::cuda
