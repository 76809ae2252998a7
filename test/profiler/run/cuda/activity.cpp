#include "profiler/run/cuda/activity.hpp"

#include <doctest/doctest.h>

#include "profiler/run/cuda/activity_records.hpp"

using namespace trainyard;
using namespace trainyard::cuda;

namespace {

constexpr std::uint32_t kVersion = 130001;

void kernel(ActivityTrace& trace, const char* name, std::uint64_t start, std::uint64_t end, std::uint32_t correlation) {
  KernelRecord record{};
  record.kind = kConcurrentKernelRecord;
  record.start = start;
  record.end = end;
  record.device = 1;
  record.stream = 7;
  record.correlation = correlation;
  record.name = name;
  take_record(&record, kVersion, trace);
}

void correlate(ActivityTrace& trace, std::uint32_t correlation, std::uint64_t op, int kind = kCustomCorrelation) {
  ExternalCorrelationRecord record{};
  record.kind = kExternalCorrelationRecord;
  record.external_kind = kind;
  record.external_id = op;
  record.correlation = correlation;
  take_record(&record, kVersion, trace);
}

}  // namespace

TEST_CASE("kernels belong to the op whose id was pushed when they were launched") {
  ActivityTrace trace;
  correlate(trace, 11, 5);
  correlate(trace, 12, 5);
  correlate(trace, 13, 3);
  correlate(trace, 14, 9, 1);  // another kind of id, not ours
  kernel(trace, "gemm", 100, 300, 11);
  kernel(trace, "bias", 350, 400, 12);
  kernel(trace, "relu", 500, 520, 13);
  kernel(trace, nullptr, 600, 700, 14);
  std::size_t unattributed = 0;
  const auto ops = attribute(trace, &unattributed);
  REQUIRE(ops.size() == 2);
  CHECK(ops[0] == OpActivity{3, Nanoseconds{20}, Nanoseconds{20}, {"relu"}});
  // Op 5 spans 100 to 400, including the gap between its kernels, which take 200 + 50.
  CHECK(ops[1] == OpActivity{5, Nanoseconds{300}, Nanoseconds{250}, {"gemm", "bias"}});
  CHECK(unattributed == 1);
}

TEST_CASE("fills and copies that an op launches are of its time; transfers are of no op's") {
  ActivityTrace trace;
  correlate(trace, 11, 5);
  correlate(trace, 12, 5);
  correlate(trace, 13, 5);
  MemsetRecord fill{};
  fill.kind = kMemsetRecord;
  fill.start = 50;
  fill.end = 60;
  fill.correlation = 11;
  take_record(&fill, kVersion, trace);
  kernel(trace, "wgrad", 100, 300, 12);
  MemcpyRecord copy{};
  copy.kind = kMemcpyRecord;
  copy.start = 310;
  copy.end = 330;
  copy.correlation = 13;
  take_record(&copy, kVersion, trace);
  copy.correlation = 99;  // the id of a transfer
  copy.end = 900;
  take_record(&copy, kVersion, trace);
  std::size_t unattributed = 0;
  const auto ops = attribute(trace, &unattributed);
  REQUIRE(ops.size() == 1);
  // The op spans 50 to 330; its parts take 10 + 200 + 20.
  CHECK(ops[0] == OpActivity{5, Nanoseconds{280}, Nanoseconds{230}, {"memset", "wgrad", "memcpy"}});
  CHECK(unattributed == 0);
}

TEST_CASE("copies say how many bytes went where") {
  ActivityTrace trace;
  PeerCopyRecord peer{};
  peer.kind = kPeerCopyRecord;
  peer.copy_kind = 10;
  peer.bytes = 1 << 20;
  peer.start = 1'000;
  peer.end = 5'000;
  peer.from_device = 0;
  peer.to_device = 1;
  peer.correlation = 3;
  take_record(&peer, kVersion, trace);
  MemcpyRecord copy{};
  copy.kind = kMemcpyRecord;
  copy.copy_kind = 1;
  copy.bytes = 64;
  copy.device = 2;
  take_record(&copy, kVersion, trace);
  REQUIRE(trace.copies.size() == 2);
  CHECK(trace.copies[0] == CopyActivity{1 << 20, 1'000, 5'000, 0, 1, 0, 3, 10, true});
  CHECK(trace.copies[1].from_device == 2);
  CHECK_FALSE(trace.copies[1].peer);
}

TEST_CASE("of another minor version only what all have in common is read") {
  OverheadRecord overhead{};
  overhead.kind = kOverheadRecord;
  overhead.start = 10;
  overhead.end = 30;
  ActivityTrace trace;
  take_record(&overhead, kVersion, trace);
  CHECK(trace.overhead_ns == 20);
  take_record(&overhead, 130101, trace);
  CHECK(trace.overhead_ns == 20);
  const int unknown[16] = {77};
  take_record(unknown, kVersion, trace);
  CHECK(trace.unknown == 1);
  const int api_call[16] = {kRuntimeRecord};
  take_record(api_call, kVersion, trace);
  CHECK(trace.unknown == 1);
}

TEST_CASE("concurrent kernels are traced, never serialized ones") {
  CHECK(activity_kinds().front() == kConcurrentKernelRecord);
  for (const int kind : activity_kinds()) CHECK(kind != kKernelRecord);
}
