#include "profiler/cuda/green_contexts.hpp"

#include <algorithm>
#include <string>

#include "trainyard/core/error.hpp"

namespace trainyard::cuda {
namespace {

void check(const Tables& tables, Status status, const char* call) {
  if (status == 0) return;
  const char* text = nullptr;
  tables.driver.cuGetErrorString(status, &text);
  throw CudaError{call, status, text ? text : "unknown error"};
}

}  // namespace

unsigned sms_per_part(unsigned sms, unsigned parts, unsigned alignment, unsigned least) {
  alignment = std::max(1u, alignment);
  if (parts == 0) return 0;
  const unsigned each = sms / parts / alignment * alignment;
  return each >= std::max(1u, least) ? each : 0;
}

GreenContexts::GreenContexts(const Tables& tables, int gpu, unsigned parts) : tables_(tables), gpu_(gpu) {
  const Driver& driver = tables.driver;
  int device = 0;
  check(tables, driver.cuDeviceGet(&device, gpu), "cuDeviceGet");
  DeviceResource all{};
  check(tables, driver.cuDeviceGetDevResource(device, &all, kResourceOfSms), "cuDeviceGetDevResource");
  sms_ = sms_per_part(all.sm.sm_count, parts, all.sm.alignment, all.sm.least_partition);
  if (sms_ == 0)
    throw MissingError("GPU " + std::to_string(gpu) + " has " + std::to_string(all.sm.sm_count) + " SMs, too few for " +
                           std::to_string(parts) + " parts",
                       "ask for fewer: a part has at least " + std::to_string(all.sm.least_partition) + " SMs");
  std::vector<DeviceResource> split(parts);
  DeviceResource rest{};
  unsigned groups = parts;
  check(tables, driver.cuDevSmResourceSplitByCount(split.data(), &groups, &all, &rest, 0, sms_),
        "cuDevSmResourceSplitByCount");
  if (groups < parts)
    throw MissingError("the driver splits GPU " + std::to_string(gpu) + " into " + std::to_string(groups) +
                           " parts of " + std::to_string(sms_) + " SMs, not " + std::to_string(parts),
                       "ask for fewer parts");
  try {
    for (unsigned i = 0; i < parts; ++i) {
      void *description = nullptr, *context = nullptr;
      check(tables, driver.cuDevResourceGenerateDesc(&description, &split[i], 1), "cuDevResourceGenerateDesc");
      check(tables, driver.cuGreenCtxCreate(&context, description, device, kGreenDefaultStream), "cuGreenCtxCreate");
      contexts_.push_back(context);
    }
  } catch (...) {
    for (void* context : contexts_) driver.cuGreenCtxDestroy(context);
    throw;
  }
}

GreenContexts::~GreenContexts() {
  for (void* context : contexts_) tables_.driver.cuGreenCtxDestroy(context);
}

std::vector<Target> GreenContexts::targets() const {
  std::vector<Target> targets;
  for (void* context : contexts_)
    targets.push_back({gpu_, [this, context] {
                         Stream stream = nullptr;
                         check(tables_, tables_.driver.cuGreenCtxStreamCreate(&stream, context, kNonBlocking, 0),
                               "cuGreenCtxStreamCreate");
                         return stream;
                       }});
  return targets;
}

}  // namespace trainyard::cuda
