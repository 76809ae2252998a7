#include "trainyard/io/foreign/trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "io/random_run.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard {
namespace {

using nlohmann::json;
using Row = std::pair<int, int>;  // pid, tid

std::string trace_text(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                       TraceOptions::Flows flows = TraceOptions::Flows::critical) {
  std::ostringstream out;
  write_trace(problem, schedule, timeline, {.flows = flows}, out);
  return out.str();
}

/// Converts microseconds of the file to whole nanoseconds.
std::int64_t ns(const json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

struct Slices {
  std::map<Row, std::vector<Span>> by_row;

  explicit Slices(const json& trace) {
    for (const json& event : trace["traceEvents"])
      if (event["ph"] == "X")
        by_row[{event["pid"], event["tid"]}].push_back(
            {Nanoseconds{ns(event["ts"])}, Nanoseconds{ns(event["ts"]) + ns(event["dur"])}});
    for (auto& [row, spans] : by_row)
      std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
  }

  bool covers(Row row, std::int64_t at) const {
    const auto found = by_row.find(row);
    return found != by_row.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Span& span) {
             return span.start.count <= at && at < span.end.count;
           });
  }
};

/// Two ops of 2 and 3 us on different devices. 5,000 bytes cross a link of 1 GB/s and 1 us latency: 6 us.
struct Pair {
  Problem problem;
  Schedule schedule;
  Timeline timeline;
};

Pair pair_run(const std::string& first = "a") {
  GraphBuilder builder{"pair"};
  builder.add({.name = first, .times = {{"gpu", Nanoseconds{2000}}}, .outputs = {{"t", Bytes{5000}}}});
  builder.add({.name = "b",
               .phase = Phase::backward,
               .parameter_bytes = Bytes{7},
               .times = {{"gpu", Nanoseconds{3001}}},
               .inputs = {"t"}});
  ClusterSpec spec{.name = "two"};
  spec.devices = {{.name = "gpu0", .device_class = "gpu"}, {.name = "gpu1", .device_class = "gpu"}};
  spec.links = {
      {.name = "wire", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{1e9}, .latency = Nanoseconds{1000}}};
  Problem problem{std::move(builder).build(), make_cluster(spec)};
  Schedule schedule{.placement = Placement(std::vector{DeviceId{0}, DeviceId{1}})};
  Timeline timeline = simulate(problem, schedule);
  return {std::move(problem), std::move(schedule), std::move(timeline)};
}

TEST_CASE("an op, its transfer and its consumer are three slices with times in microseconds to the nanosecond") {
  const auto [problem, schedule, timeline] = pair_run();
  const std::string text = trace_text(problem, schedule, timeline);
  // Op a runs from 0 to 2, the transfer from 2 to 8 (latency 1 + 5), and b from 8 to 11.001 us.
  CHECK(text.find(R"("name": "a", "cat": "forward", "pid": 0, "tid": 0, "ts": 0.000, "dur": 2.000)") != text.npos);
  CHECK(text.find(R"("name": "t", "cat": "transfer", "pid": 2, "tid": 0, "ts": 2.000, "dur": 6.000)") != text.npos);
  CHECK(text.find(R"("name": "b", "cat": "backward", "pid": 1, "tid": 0, "ts": 8.000, "dur": 3.001)") != text.npos);
  const json trace = json::parse(text);
  CHECK(trace["displayTimeUnit"] == "ns");
  std::map<Row, std::string> threads;
  for (const json& event : trace["traceEvents"])
    if (event["name"] == "thread_name") threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  CHECK(threads == std::map<Row, std::string>{
                       {{0, 0}, "ops"}, {{1, 0}, "ops"}, {{2, 0}, "gpu0 → gpu1  wire"}, {{2, 1}, "gpu1 → gpu0  wire"}});
}

TEST_CASE("the critical path is one arrow through op, transfer and op") {
  const auto [problem, schedule, timeline] = pair_run();
  const json trace = json::parse(trace_text(problem, schedule, timeline));
  std::string phases;
  for (const json& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase != "s" && phase != "t" && phase != "f") continue;
    phases += phase;
    CHECK(event["id"] == 1);
    CHECK(event.contains("bp") == (phase == "f"));
  }
  CHECK(phases == "stf");
}

TEST_CASE("names with quotes, line ends, markup and bytes that are not text make a valid trace") {
  for (const std::string name : {"say \"hi\"\n\\", "</script><b>", "\x01\x1f\x7f", "caf\xc3\xa9", "bad \xff byte"}) {
    const auto [problem, schedule, timeline] = pair_run(name);
    const json trace = json::parse(trace_text(problem, schedule, timeline));
    const std::string shown = name == "bad \xff byte" ? "bad \xef\xbf\xbd byte" : name;
    CHECK(std::any_of(trace["traceEvents"].begin(), trace["traceEvents"].end(),
                      [&](const json& event) { return event["ph"] == "X" && event["name"] == shown; }));
  }
}

TEST_CASE("slices of one row never overlap, and every op and transfer has its slice or instant") {
  for (std::uint64_t seed = 0; seed < test::rounds(150U); ++seed) {
    CAPTURE(seed);
    const auto [problem, schedule, timeline] = test::random_run(seed);
    const json trace = json::parse(trace_text(problem, schedule, timeline));
    for (const auto& [row, spans] : Slices(trace).by_row)
      for (std::size_t i = 1; i < spans.size(); ++i) REQUIRE(spans[i - 1].end <= spans[i].start);

    std::map<std::string, std::size_t> ops, transfers;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X" && event["ph"] != "i") continue;
      if (event["cat"] == "transfer")
        ++transfers[event["name"]];
      else
        ++ops[event["name"]];
    }
    CHECK(ops.size() == problem.op_count());
    for (const OpId op : problem.ops()) REQUIRE(ops[std::string{problem.graph().name(op)}] == 1);
    std::map<std::string, std::size_t> expected;
    for (const Transfer& transfer : timeline.transfers)
      expected[std::string{problem.graph().name(transfer.tensor)}] +=
          std::max<std::size_t>(1, problem.cluster().route(transfer.from, transfer.to).channels.size());
    CHECK(transfers == expected);
  }
}

TEST_CASE("arrows begin and end inside slices and their times ascend") {
  std::size_t arrows = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(100U); ++seed)
    for (const auto flows : {TraceOptions::Flows::critical, TraceOptions::Flows::all, TraceOptions::Flows::none}) {
      CAPTURE(seed);
      const auto [problem, schedule, timeline] = test::random_run(seed);
      const json trace = json::parse(trace_text(problem, schedule, timeline, flows));
      const Slices slices{trace};
      std::map<int, std::vector<std::pair<std::string, std::int64_t>>> by_id;
      for (const json& event : trace["traceEvents"]) {
        const std::string phase = event["ph"];
        if (phase != "s" && phase != "t" && phase != "f") continue;
        REQUIRE(slices.covers({event["pid"], event["tid"]}, ns(event["ts"])));
        by_id[event["id"]].push_back({phase, ns(event["ts"])});
      }
      if (flows == TraceOptions::Flows::none) CHECK(by_id.empty());
      arrows += by_id.size();
      for (const auto& [id, steps] : by_id) {
        REQUIRE(steps.size() >= 2);
        REQUIRE(steps.front().first == "s");
        REQUIRE(steps.back().first == "f");
        for (std::size_t i = 1; i < steps.size(); ++i) REQUIRE(steps[i - 1].second < steps[i].second);
      }
    }
  CHECK(arrows > test::rounds(500U));
}

TEST_CASE("the memory counter reaches the peak of the timeline, first at the time of the peak") {
  for (std::uint64_t seed = 0; seed < test::rounds(200U); ++seed) {
    CAPTURE(seed);
    const auto [problem, schedule, timeline] = test::random_run(seed);
    if (timeline.makespan.count == 0) continue;
    const json trace = json::parse(trace_text(problem, schedule, timeline));
    for (const DeviceId device : problem.devices()) {
      std::int64_t peak = -1, at = -1;
      for (const json& event : trace["traceEvents"])
        if (event["ph"] == "C" && event["name"] == "memory" && event["pid"] == device.index())
          if (const std::int64_t bytes = event["args"]["bytes"]; bytes > peak) {
            peak = bytes;
            at = ns(event["ts"]);
          }
      REQUIRE(peak == timeline.devices[device].peak.count);
      REQUIRE(at == timeline.devices[device].peak_at.count);
    }
  }
}

TEST_CASE("the same run gives the same bytes") {
  const auto [problem, schedule, timeline] = test::random_run(7);
  CHECK(trace_text(problem, schedule, timeline) == trace_text(problem, schedule, timeline));
}

}  // namespace
}  // namespace trainyard
