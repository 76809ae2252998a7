#include "profiler/run/cuda/tracer.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "profiler/run/cuda/activity_records.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::cuda;

namespace {

/// A fake CUPTI that returns the records that a test supplied.
struct FakeCupti {
  Cupti::Request request = nullptr;
  Cupti::Complete complete = nullptr;
  std::set<int> enabled;
  std::vector<std::uint64_t> pushed;
  std::vector<KernelRecord> kernels;
  std::vector<ExternalCorrelationRecord> correlations;
  Status enable_answers = 0;
  std::size_t next = 0;
};
FakeCupti* fake = nullptr;

/// Launches a kernel; its correlation id is its sequence number.
void launch(const char* name, std::uint64_t start, std::uint64_t end) {
  KernelRecord kernel{};
  kernel.kind = kConcurrentKernelRecord;
  kernel.start = start;
  kernel.end = end;
  kernel.correlation = static_cast<std::uint32_t>(fake->kernels.size() + 1);
  kernel.name = name;
  fake->kernels.push_back(kernel);
  if (fake->pushed.empty()) return;
  ExternalCorrelationRecord link{};
  link.kind = kExternalCorrelationRecord;
  link.external_kind = kCustomCorrelation;
  link.external_id = fake->pushed.back();
  link.correlation = kernel.correlation;
  fake->correlations.push_back(link);
}

Tables tables_of_fake() {
  Tables tables;
  Cupti& cupti = tables.cupti;
  cupti.cuptiGetVersion = [](std::uint32_t* version) { return *version = 130001, 0; };
  cupti.cuptiGetResultString = [](Status, const char** text) { return *text = "planted", 0; };
  cupti.cuptiActivityEnable = [](int kind) -> Status {
    if (fake->enabled.size() == 2 && fake->enable_answers != 0) return fake->enable_answers;
    fake->enabled.insert(kind);
    return 0;
  };
  cupti.cuptiActivityDisable = [](int kind) -> Status { return fake->enabled.erase(kind), 0; };
  cupti.cuptiActivityRegisterCallbacks = [](Cupti::Request request, Cupti::Complete complete) {
    fake->request = request;
    fake->complete = complete;
    return 0;
  };
  cupti.cuptiActivityGetNumDroppedRecords = [](void*, std::uint32_t, std::size_t* dropped) { return *dropped = 2, 0; };
  cupti.cuptiActivityPushExternalCorrelationId = [](int, std::uint64_t id) { return fake->pushed.push_back(id), 0; };
  cupti.cuptiActivityPopExternalCorrelationId = [](int, std::uint64_t* last) {
    *last = fake->pushed.back();
    fake->pushed.pop_back();
    return 0;
  };
  cupti.cuptiActivityGetNextRecord = [](std::uint8_t* buffer, std::size_t valid, void** record) -> Status {
    if (fake->next >= valid) return 12;
    *record = buffer + fake->next;
    const int kind = *reinterpret_cast<const int*>(*record);
    fake->next += kind == kConcurrentKernelRecord ? sizeof(KernelRecord) : sizeof(ExternalCorrelationRecord);
    return 0;
  };
  cupti.cuptiActivityFlushAll = [](std::uint32_t) {
    if (fake->kernels.empty()) return 0;
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0, used = 0;
    fake->request(&buffer, &size, &most);
    const auto add = [&](const auto& records) {
      for (const auto& record : records) {
        std::memcpy(buffer + used, &record, sizeof record);
        used += sizeof record;
      }
    };
    add(fake->kernels);
    add(fake->correlations);
    fake->kernels.clear();
    fake->correlations.clear();
    fake->next = 0;
    fake->complete(nullptr, 0, buffer, size, used);
    return 0;
  };
  return tables;
}

}  // namespace

TEST_CASE("a traced pass attributes kernels to the ops that launched them") {
  FakeCupti cupti;
  fake = &cupti;
  const Tables tables = tables_of_fake();
  {
    Tracer tracer{tables};
    CHECK(cupti.enabled.contains(kConcurrentKernelRecord));
    {
      const OpScope scope{tracer, 7};
      launch("gemm", 100, 200);
      launch("bias", 250, 300);
    }
    launch("stray", 400, 500);
    const ActivityTrace trace = tracer.take();
    CHECK(trace.dropped == 2);
    std::size_t unattributed = 0;
    const auto ops = attribute(trace, &unattributed);
    REQUIRE(ops.size() == 1);
    CHECK(ops[0] == OpActivity{7, Nanoseconds{200}, Nanoseconds{150}, {"gemm", "bias"}});
    CHECK(unattributed == 1);
    CHECK(tracer.take().kernels.empty());
  }
  CHECK(cupti.enabled.empty());
  CHECK(cupti.pushed.empty());
}

TEST_CASE("a user who may not trace is told so, and nothing stays on") {
  FakeCupti cupti;
  fake = &cupti;
  cupti.enable_answers = 35;
  const Tables tables = tables_of_fake();
  CHECK_THROWS_WITH_AS(Tracer{tables}, "this user may not trace GPUs (CUPTI: insufficient privileges)", MissingError);
  CHECK(cupti.enabled.empty());
  cupti.enable_answers = 0;
  CHECK_NOTHROW(Tracer{tables});
  CHECK_THROWS_AS(Tracer{Tables{}}, MissingError);
}

TEST_CASE("tracing has a price that is told") {
  CHECK(tracing_ratio(1'060, 1'000) == doctest::Approx(1.06));
  CHECK(tracing_ratio(5, 0) == 1);
}
