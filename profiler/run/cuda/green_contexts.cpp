#include "profiler/run/cuda/green_contexts.hpp"

#include <algorithm>
#include <string>

#include "trainyard/core/error.hpp"

namespace trainyard::cuda {

unsigned sms_per_part(unsigned sms, unsigned parts, unsigned alignment, unsigned least) {
  alignment = std::max(1u, alignment);
  if (parts == 0) return 0;
  const unsigned each = sms / parts / alignment * alignment;
  return each >= std::max(1u, least) ? each : 0;
}

GreenContexts::GreenContexts(const Tables& tables, int gpu, unsigned parts) : tables_(tables), gpu_(gpu) {
  const Driver& driver = tables.driver;
  check(tables.runtime, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");  // its primary context must exist first
  int device = 0;
  check(driver, driver.cuDeviceGet(&device, gpu), "cuDeviceGet");
  DeviceResource all{};
  check(driver, driver.cuDeviceGetDevResource(device, &all, kResourceOfSms), "cuDeviceGetDevResource");
  // Some drivers report no granularity: they split by eight from compute capability 9 on.
  int major = 0;
  check(tables.runtime, tables.runtime.cudaDeviceGetAttribute(&major, capability_major, gpu), "cudaDeviceGetAttribute");
  const unsigned granularity = major >= 9 ? 8 : 2;
  std::vector<DeviceResource> split(parts);
  for (const unsigned kept : {0U, granularity}) {
    sms_ = all.sm.sm_count < kept ? 0
                                  : sms_per_part(all.sm.sm_count - kept, parts, std::max(all.sm.alignment, granularity),
                                                 std::max(all.sm.least_partition, granularity));
    if (sms_ == 0)
      throw MissingError("GPU " + std::to_string(gpu) + " has " + std::to_string(all.sm.sm_count) +
                             " SMs, too few for " + std::to_string(parts) + " parts",
                         "ask for fewer parts: each has at least " + std::to_string(all.sm.least_partition) + " SMs");
    DeviceResource rest{};
    unsigned groups = parts;
    check(driver, driver.cuDevSmResourceSplitByCount(split.data(), &groups, &all, &rest, 0, sms_),
          "cuDevSmResourceSplitByCount");
    if (groups < parts)
      throw MissingError("the driver splits GPU " + std::to_string(gpu) + " into " + std::to_string(groups) +
                             " parts of " + std::to_string(sms_) + " SMs, not " + std::to_string(parts),
                         "ask for fewer parts");
    if (kept == 0 && rest.sm.sm_count == 0) continue;
    try {
      copies_ = make_context(rest);
      break;
    } catch (const CudaError&) {
      if (kept > 0) throw;
    }
  }
  for (DeviceResource& part : split) contexts_.push_back(make_context(part));
}

Owned GreenContexts::make_context(DeviceResource& resource) const {
  const Driver& driver = tables_.driver;
  int device = 0;
  void *description = nullptr, *context = nullptr;
  check(driver, driver.cuDeviceGet(&device, gpu_), "cuDeviceGet");
  check(driver, driver.cuDevResourceGenerateDesc(&description, &resource, 1), "cuDevResourceGenerateDesc");
  check(driver, driver.cuGreenCtxCreate(&context, description, device, kGreenDefaultStream), "cuGreenCtxCreate");
  return {context, {driver.cuGreenCtxDestroy}};
}

Owned GreenContexts::make_stream(const Owned& context) const {
  Stream stream = nullptr;
  check(tables_.driver, tables_.driver.cuGreenCtxStreamCreate(&stream, context.get(), kNonBlocking, 0),
        "cuGreenCtxStreamCreate");
  return owned_stream(tables_.runtime, stream);
}

std::vector<Target> GreenContexts::targets() const {
  std::vector<Target> targets;
  for (const Owned& part : contexts_)
    targets.push_back({gpu_, [this, &part] { return make_stream(part); }, [this] { return make_link_stream(); }});
  return targets;
}

}  // namespace trainyard::cuda
