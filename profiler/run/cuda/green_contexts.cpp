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
  check(tables.runtime, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");  // its own context comes first
  int device = 0;
  check(driver, driver.cuDeviceGet(&device, gpu), "cuDeviceGet");
  DeviceResource all{};
  check(driver, driver.cuDeviceGetDevResource(device, &all, kResourceOfSms), "cuDeviceGetDevResource");
  // Drivers that leave the granularity open split by eight from compute capability 9 on.
  int major = 0;
  check(tables.runtime, tables.runtime.cudaDeviceGetAttribute(&major, capability_major, gpu), "cudaDeviceGetAttribute");
  const unsigned granularity = major >= 9 ? 8 : 2;
  sms_ = sms_per_part(all.sm.sm_count, parts, std::max(all.sm.alignment, granularity),
                      std::max(all.sm.least_partition, granularity));
  if (sms_ == 0)
    throw MissingError("GPU " + std::to_string(gpu) + " has " + std::to_string(all.sm.sm_count) + " SMs, too few for " +
                           std::to_string(parts) + " parts",
                       "ask for fewer: a part has at least " + std::to_string(all.sm.least_partition) + " SMs");
  std::vector<DeviceResource> split(parts);
  DeviceResource rest{};
  unsigned groups = parts;
  check(driver, driver.cuDevSmResourceSplitByCount(split.data(), &groups, &all, &rest, 0, sms_),
        "cuDevSmResourceSplitByCount");
  if (groups < parts)
    throw MissingError("the driver splits GPU " + std::to_string(gpu) + " into " + std::to_string(groups) +
                           " parts of " + std::to_string(sms_) + " SMs, not " + std::to_string(parts),
                       "ask for fewer parts");
  for (unsigned i = 0; i < parts; ++i) {
    void *description = nullptr, *context = nullptr;
    check(driver, driver.cuDevResourceGenerateDesc(&description, &split[i], 1), "cuDevResourceGenerateDesc");
    check(driver, driver.cuGreenCtxCreate(&context, description, device, kGreenDefaultStream), "cuGreenCtxCreate");
    contexts_.push_back(Owned{context, {driver.cuGreenCtxDestroy}});
  }
}

std::vector<Target> GreenContexts::targets() const {
  std::vector<Target> targets;
  for (const Owned& part : contexts_)
    targets.push_back({gpu_, [this, context = part.get()] {
                         Stream stream = nullptr;
                         check(tables_.driver, tables_.driver.cuGreenCtxStreamCreate(&stream, context, kNonBlocking, 0),
                               "cuGreenCtxStreamCreate");
                         return owned_stream(tables_.runtime, stream);
                       }});
  return targets;
}

}  // namespace trainyard::cuda
