#include "trainyard/io/formats/timeline_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "io/bad_inputs.hpp"
#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

Problem timeline_problem() {
  return {parse_graph(test::kToyGraph, "toy.json"), make_cluster(parse_cluster(test::kToyCluster, "pair.toml"))};
}

std::string toy_timeline() {
  const Problem problem = timeline_problem();
  Schedule schedule;
  schedule.placement = Placement{std::vector{DeviceId{0}, DeviceId{0}, DeviceId{1}}};
  std::ostringstream out;
  write_timeline(simulate(problem, schedule), problem, schedule.placement, out);
  return out.str();
}

}  // namespace

TEST_CASE("a written timeline has the documented keys") {
  // Op a: 0 to 1000; b: 1000 to 2000; transfer of b.out: latency 5000 ns + 200 B / 50 GB/s = 4 ns; c: 7004 to 8004. At
  // 1000, gpu0 holds a.out and b.out, 300 bytes; gpu1 holds b.out from 2000.
  CHECK(toy_timeline() ==
        R"({"format": "trainyard-timeline/1", "graph": "toy", "cluster": "pair", "makespan_ns": 8004,
 "ops": [
  {"op": "a", "device": "gpu0", "start_ns": 0, "end_ns": 1000},
  {"op": "b", "device": "gpu0", "start_ns": 1000, "end_ns": 2000},
  {"op": "c", "device": "gpu1", "start_ns": 7004, "end_ns": 8004}],
 "transfers": [
  {"tensor": "b.out", "from": "gpu0", "to": "gpu1", "bytes": 200, "ready_ns": 2000, "start_ns": 2000, "end_ns": 7004}],
 "devices": [
  {"device": "gpu0", "busy_ns": 2000, "exposed_communication_ns": 5004, "peak_bytes": 300, "peak_at_ns": 1000},
  {"device": "gpu1", "busy_ns": 1000, "exposed_communication_ns": 5004, "peak_bytes": 200, "peak_at_ns": 2000}],
 "links": [
  {"link": "nvlink", "from": "gpu0", "to": "gpu1", "busy_ns": 5004, "bytes": 200},
  {"link": "nvlink", "from": "gpu1", "to": "gpu0", "busy_ns": 0, "bytes": 0}]}
)");
}

TEST_CASE("a timeline with ops on no device, or of things without a name, is not written") {
  const Problem problem = timeline_problem();
  const auto refused = [&](const auto& change) {
    Placement placement{std::vector{DeviceId{0}, DeviceId{0}, DeviceId{1}}};
    Timeline timeline = simulate(problem, {.placement = placement});
    change(timeline, placement);
    std::ostringstream out;
    const std::string code = test::code_of([&] { write_timeline(timeline, problem, placement, out); });
    CHECK(out.str().empty() == !code.empty());
    return code;
  };
  CHECK(refused([](Timeline&, Placement&) {}) == "");
  CHECK(refused([](Timeline&, Placement& p) { p[OpId{1}] = DeviceId::none(); }) == "not-placed");
  CHECK(refused([](Timeline&, Placement& p) { p[OpId{1}] = DeviceId{9}; }) == "unknown-device");
  CHECK(refused([](Timeline& t, Placement&) { t.transfers[0].tensor = TensorId::none(); }) == "unknown-tensor");
  CHECK(refused([](Timeline& t, Placement&) { t.transfers[0].also_to = {DeviceId{9}}; }) == "unknown-device");
  CHECK(refused([](Timeline& t, Placement&) {
          t.devices[DeviceId{0}].out_of_memory = OutOfMemory{.at = {}, .op = OpId{9}, .largest = {}};
        }) == "unknown-op");
}

TEST_CASE("a timeline of another problem is refused") {
  struct Change {
    const char *from, *to, *code;
  };
  for (const Change& change :
       {Change{"\"op\": \"a\"", "\"op\": \"z\"", "unknown-op"},
        Change{"\"op\": \"a\"", "\"op\": \"b\"", "duplicate-name"},
        Change{"\"device\": \"gpu1\", \"start", "\"device\": \"gpu2\", \"start", "unknown-device"},
        Change{"\"tensor\": \"b.out\"", "\"tensor\": \"c.out\"", "unknown-tensor"},
        Change{"\"link\": \"nvlink\"", "\"link\": \"pcie\"", "unknown-link"},
        Change{"\"end_ns\": 7004", "\"end_ns\": 1", "negative-time"},
        Change{"\"peak_bytes\": 300", "\"peak_bytes\": -300", "negative-bytes"},
        Change{"\"makespan_ns\": 8004", "\"makespan\": 8004", "missing-key"},
        Change{"trainyard-timeline/1", "trainyard-timeline/9", "format"}}) {
    CAPTURE(change.code);
    std::string text = toy_timeline();
    text.replace(text.find(change.from), std::string{change.from}.size(), change.to);
    const auto findings = test::findings_of([&] { parse_timeline(text, "t.json", timeline_problem()); });
    REQUIRE(!findings.empty());
    CHECK(std::ranges::count(findings, change.code, &Finding::code) > 0);
    CHECK(findings.front().at.line > 0);
  }
}
