#include "trainyard/problem/problem.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

Device device(std::string name, std::string device_class = "gpu") {
  return {.name = std::move(name), .kind = "", .device_class = std::move(device_class)};
}

Cluster cluster_of(std::vector<Device> devices, double bandwidth = 1e9, std::int64_t latency = 0) {
  ClusterSpec spec{.name = "c", .devices = std::move(devices)};
  for (std::size_t i = 1; i < spec.devices.size(); ++i)
    spec.links.push_back({.name = "l" + std::to_string(i),
                          .from = spec.devices[0].name,
                          .to = spec.devices[i].name,
                          .bandwidth = BytesPerSecond{bandwidth},
                          .latency = Nanoseconds{latency}});
  return make_cluster(spec);
}

OpSpec timed(std::string name, std::vector<GivenTime> times, std::vector<OutputSpec> outputs = {}) {
  OpSpec spec{.name = std::move(name)};
  spec.times = std::move(times);
  spec.outputs = std::move(outputs);
  return spec;
}

Graph graph_of(std::vector<OpSpec> ops) {
  GraphBuilder builder{"g"};
  for (OpSpec& op : ops) builder.add(std::move(op));
  return std::move(builder).build();
}

Finding wrong(std::vector<OpSpec> ops, Cluster cluster) {
  return test::finding_of([&] { Problem{graph_of(std::move(ops)), std::move(cluster)}; });
}

bool says(const Finding& finding, const std::string& words) { return finding.message.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("a time goes by the device's name before its class, and where none fits the op cannot run") {
  const Problem problem{
      graph_of({timed("a", {{"gpu", Nanoseconds{5}}, {"g1", Nanoseconds{2}}}), timed("b", {{"gpu", Nanoseconds{7}}})}),
      cluster_of({device("g0"), device("g1"), device("g2"), device("host", "cpu")})};
  const OpId a{0}, b{1};
  CHECK(problem.duration(a, DeviceId{0}) == Nanoseconds{5});
  CHECK(problem.duration(a, DeviceId{1}) == Nanoseconds{2});
  CHECK(problem.duration(b, DeviceId{1}) == Nanoseconds{7});
  CHECK(problem.duration(a, DeviceId{3}) == Problem::kNever);
  CHECK_FALSE(problem.can_run(b, DeviceId{3}));
  CHECK(problem.shortest(a) == Nanoseconds{2});
  CHECK(problem.cost_source(a, DeviceId{0}) == CostSource::graph);
  // g0 and g2 are equal; g1 differs by its name, the host by its class.
  CHECK(problem.column_count() == 3);
  CHECK(problem.column(DeviceId{0}) == problem.column(DeviceId{2}));
  CHECK(problem.column(DeviceId{0}) != problem.column(DeviceId{1}));
}

TEST_CASE("a transfer takes the latency and the bytes over the bandwidth, to the nearest nanosecond, halves up") {
  std::vector<OutputSpec> outputs;
  for (int bytes = 0; bytes <= 5; ++bytes) outputs.push_back({"t" + std::to_string(bytes), Bytes{bytes}});
  // 0 to 5 bytes at 4 bytes a nanosecond: 0, 0.25, 0.5, 0.75, 1 and 1.25 ns, plus 3 ns of latency.
  const Problem problem{graph_of({timed("a", {{"gpu", Nanoseconds{1}}}, outputs)}),
                        cluster_of({device("g0"), device("g1")}, 4e9, 3)};
  const std::vector<std::int64_t> expected{3, 3, 4, 4, 4, 4};
  for (std::size_t tensor = 0; tensor < expected.size(); ++tensor) {
    CAPTURE(tensor);
    CHECK(problem.transfer_time(TensorId{tensor}, DeviceId{0}, DeviceId{1}) == Nanoseconds{expected[tensor]});
  }
}

TEST_CASE("ops of one colocation group are one group, and every other op is its own") {
  OpSpec a = timed("a", {{"gpu", Nanoseconds{1}}}), b = a, c = a;
  b.name = "b";
  c.name = "c";
  a.colocate = c.colocate = "w";
  const Problem problem{graph_of({a, b, c}), cluster_of({device("g0")})};
  CHECK(problem.group_count() == 2);
  CHECK(problem.group(OpId{0}) == problem.group(OpId{2}));
  REQUIRE(problem.group_ops(GroupId{0}).size() == 2);
  CHECK(problem.group_ops(GroupId{0})[1] == OpId{2});
  CHECK(problem.group_ops(GroupId{1})[0] == OpId{1});
}

TEST_CASE("a problem has ops and devices") {
  GraphBuilder one;
  one.add({.name = "a", .times = {{"gpu", Nanoseconds{1}}}});
  CHECK_THROWS_WITH_AS(Problem(Graph{}, cluster_of({device("gpu0")})), "a problem's graph has no ops", InputError);
  CHECK_THROWS_WITH_AS(Problem(std::move(one).build(), Cluster{}), "a problem's cluster has no devices", InputError);
}

TEST_CASE("an op that no device can run is named with the reason") {
  OpSpec restricted{.name = "a"};
  restricted.device_kinds = {"tpu"};
  CHECK(says(wrong({restricted}, cluster_of({device("g0")})),
             "no device of cluster 'c' can run op 'a': its \"device_kinds\" are tpu"));
  restricted.device_kinds = {""};
  CHECK(says(wrong({restricted}, cluster_of({device("g0")})), "its \"device_kinds\" are ''"));
  const Finding finding = wrong({timed("a", {{"cpu", Nanoseconds{1}}})}, cluster_of({device("g0")}));
  CHECK(finding.code == "no-device");
  CHECK(finding.pointer == "/ops/0");
  CHECK(says(finding, "it gives times for cpu only"));
  OpSpec unknown{.name = "a"};
  unknown.flops = Flops{1e9};
  CHECK(says(wrong({unknown}, cluster_of({device("g0")})), "speeds are unknown"));
}

TEST_CASE("a colocation group needs one device that can run all of it") {
  OpSpec a = timed("a", {{"gpu", Nanoseconds{1}}}), b = timed("b", {{"cpu", Nanoseconds{1}}});
  a.colocate = b.colocate = "w";
  const Finding finding = wrong({a, b}, cluster_of({device("g0"), device("host", "cpu")}));
  CHECK(finding.code == "colocation");
  CHECK(finding.pointer == "/ops/0/colocate");
  CHECK(says(finding, "the 2 ops of colocation group 'w'"));
}

TEST_CASE("times that could add up to more than 2^62 ns are refused, so that no sum overflows") {
  const Nanoseconds half{std::int64_t{1} << 61};
  CHECK_NOTHROW(
      Problem{graph_of({timed("a", {{"gpu", half}}), timed("b", {{"gpu", half}})}), cluster_of({device("g0")})});
  const Finding finding =
      wrong({timed("a", {{"gpu", half}}), timed("b", {{"gpu", half}}), timed("c", {{"gpu", Nanoseconds{1}}})},
            cluster_of({device("g0")}));
  CHECK(finding.code == "too-large");
}

TEST_CASE("a copy of a problem shares its data") {
  const Problem problem{graph_of({timed("a", {{"gpu", Nanoseconds{1}}})}), cluster_of({device("g0")})};
  const Problem copy = problem;
  CHECK(&copy.graph() == &problem.graph());
}
