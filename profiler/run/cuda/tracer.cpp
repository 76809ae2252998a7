#include "profiler/run/cuda/tracer.hpp"

#include <cassert>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "profiler/run/cuda/activity_records.hpp"
#include "profiler/run/cuda/errors.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::cuda {
namespace {

constexpr std::size_t kBufferSize = std::size_t{8} << 20;
constexpr Status kNoPrivilege = 35;  // CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
constexpr std::uint32_t kFlushForced = 1;

/// State of CUPTI's callbacks, which take no user pointer.
struct Shared {
  std::mutex mutex;
  const Cupti* cupti = nullptr;
  std::uint32_t version = 0;
  ActivityTrace trace;
};
Shared& shared() {
  static Shared instance;
  return instance;
}

void request(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferSize));
  *size = *buffer ? kBufferSize : 0;
  *most_records = 0;  // no limit but the buffer's size
}

void complete(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Shared& state = shared();
  const Cupti* cupti = state.cupti;
  if (cupti) {
    // Call before locking our mutex: it takes a lock of CUPTI's, which another thread may hold while it waits for ours.
    std::size_t dropped = 0;
    const bool known = cupti->cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == 0;
    const std::lock_guard lock{state.mutex};
    void* record = nullptr;
    while (cupti->cuptiActivityGetNextRecord(buffer, valid, &record) == 0)
      take_record(record, state.version, state.trace);
    if (known) state.trace.dropped += dropped;
  }
  std::free(buffer);
}

void check(const Cupti& cupti, Status status, const char* call) {
  if (status == 0) return;
  if (status == kNoPrivilege)
    throw MissingError("this user may not trace GPUs (CUPTI: insufficient privileges)",
                       "set the driver option NVreg_RestrictProfilingToAdminUsers=0, or give the container "
                       "CAP_SYS_ADMIN; without tracing, ops are timed by events");
  const char* text = nullptr;
  cupti.cuptiGetResultString(status, &text);
  throw MissingError(std::string{"CUPTI cannot trace ("} + CudaError{call, status, text}.what() + ")",
                     "without tracing, ops are timed by events");
}

}  // namespace

Tracer::Tracer(const Tables& tables) : tables_(tables) {
  const Cupti& cupti = tables.cupti;
  if (!cupti.cuptiActivityEnable) throw MissingError("CUPTI was not found", "install the CUDA 13 toolkit");
  Shared& state = shared();
  assert(!state.cupti);
  check(cupti, cupti.cuptiGetVersion(&state.version), "cuptiGetVersion");
  state.cupti = &cupti;
  state.trace = {};
  try {
    check(cupti, cupti.cuptiActivityRegisterCallbacks(request, complete), "cuptiActivityRegisterCallbacks");
    for (const int kind : activity_kinds()) {
      check(cupti, cupti.cuptiActivityEnable(kind), "cuptiActivityEnable");
      enabled_.push_back(kind);
    }
  } catch (...) {
    for (const int kind : enabled_) cupti.cuptiActivityDisable(kind);
    state.cupti = nullptr;
    throw;
  }
}

Tracer::~Tracer() {
  for (const int kind : enabled_) tables_.cupti.cuptiActivityDisable(kind);
  tables_.cupti.cuptiActivityFlushAll(kFlushForced);
  shared().cupti = nullptr;
}

void Tracer::push(std::uint64_t op) {
  check(tables_.cupti, tables_.cupti.cuptiActivityPushExternalCorrelationId(kCustomCorrelation, op),
        "cuptiActivityPushExternalCorrelationId");
}

void Tracer::pop() {
  std::uint64_t last = 0;
  tables_.cupti.cuptiActivityPopExternalCorrelationId(kCustomCorrelation, &last);
}

ActivityTrace Tracer::take() {
  check(tables_.cupti, tables_.cupti.cuptiActivityFlushAll(kFlushForced), "cuptiActivityFlushAll");
  Shared& state = shared();
  const std::lock_guard lock{state.mutex};
  return std::exchange(state.trace, {});
}

double tracing_ratio(double traced_ns, double untraced_ns) { return untraced_ns > 0 ? traced_ns / untraced_ns : 1; }

}  // namespace trainyard::cuda
