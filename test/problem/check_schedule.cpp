#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::test {
namespace {

/// Ops a -> b; "c/1" (GPU only) after b; z (no time) after c/1; "c/1" and d colocated. Devices gpu0, gpu1, cpu0.
Problem problem() {
  const std::vector<GivenTime> anywhere{{"gpu", Nanoseconds{2}}, {"cpu", Nanoseconds{5}}};
  GraphBuilder builder{"net"};
  builder.add({.name = "a", .times = anywhere, .outputs = {{"ta", Bytes{1}}}});
  builder.add({.name = "b", .times = anywhere, .inputs = {"ta"}});
  builder.add({.name = "c/1", .colocate = "cd", .times = {{"gpu", Nanoseconds{3}}}, .after = {"b"}});
  builder.add({.name = "d", .colocate = "cd", .times = anywhere});
  builder.add({.name = "z", .times = {{"gpu", Nanoseconds{0}}}, .after = {"c/1"}});
  ClusterSpec cluster;
  cluster.name = "box";
  for (const char* name : {"gpu0", "gpu1", "cpu0"}) {
    Device device;
    device.name = name;
    device.device_class = std::string(name).substr(0, 3);
    cluster.devices.push_back(device);
    Egress egress;
    egress.device = name;
    egress.bandwidth = BytesPerSecond{1e9};
    cluster.egresses.push_back(egress);
  }
  return Problem{std::move(builder).build(), make_cluster(cluster)};
}

constexpr DeviceId kGpu0{0}, kGpu1{1}, kCpu0{2};
constexpr OpId kA{0}, kB{1}, kC{2}, kD{3}, kZ{4};

Schedule valid() {
  Schedule schedule;
  schedule.placement = Placement(5, kGpu0);
  return schedule;
}

Schedule strict(std::vector<OpId> gpu0, std::vector<OpId> gpu1 = {}, std::vector<OpId> cpu0 = {}) {
  Schedule schedule = valid();
  schedule.policy = Policy::strict;
  for (const OpId op : gpu1) schedule.placement[op] = kGpu1;
  for (const OpId op : cpu0) schedule.placement[op] = kCpu0;
  schedule.order = IdMap<DeviceId, std::vector<OpId>>(
      std::vector<std::vector<OpId>>{std::move(gpu0), std::move(gpu1), std::move(cpu0)});
  return schedule;
}

std::vector<Finding> findings_of(const Schedule& schedule) {
  return test::findings_of([&] { check_schedule(problem(), schedule); });
}

void check_only_finding(const Schedule& schedule, const std::string& code, const std::string& message,
                        const std::string& pointer) {
  const auto findings = findings_of(schedule);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == code);
  CHECK(findings[0].message == message);
  CHECK(findings[0].pointer == pointer);
  CHECK(!findings[0].help.empty());
}

TEST_CASE("a placement alone is a schedule") { CHECK(findings_of(valid()).empty()); }

TEST_CASE("an op without a device is named") {
  Schedule schedule = valid();
  schedule.placement[kB] = DeviceId::none();
  check_only_finding(schedule, "not-placed", "op 'b' is not placed on a device", "/placement");
}

TEST_CASE("a placement alone has every op on a device of the cluster") {
  const auto refused = [](const Placement& placement) {
    return test::code_of([&] { check_placement(problem(), placement); });
  };
  Placement placement = valid().placement;
  CHECK(refused(placement).empty());
  placement[kB] = DeviceId{7};
  CHECK(refused(placement) == "unknown-device");
  placement[kB] = DeviceId::none();
  CHECK(refused(placement) == "not-placed");
  CHECK(refused(Placement(2, kGpu0)) == "size");
}

TEST_CASE("a placement for a shorter graph is for another graph, in one finding") {
  Schedule schedule = valid();
  schedule.placement = Placement(2, kGpu0);
  check_only_finding(schedule, "size", "the placement has 2 ops, but graph 'net' has 5", "/placement");
}

TEST_CASE("a placement for a longer graph is for another graph") {
  Schedule schedule = valid();
  schedule.placement = Placement(6, kGpu0);
  check_only_finding(schedule, "size", "the placement has 6 ops, but graph 'net' has 5", "/placement");
}

TEST_CASE("a device that the cluster does not have") {
  Schedule schedule = valid();
  schedule.placement[kA] = DeviceId{7};
  check_only_finding(schedule, "unknown-device", "op 'a' is on device number 7, but cluster 'box' has 3 devices",
                     "/placement/a");
}

TEST_CASE("a device that cannot run the op, and a name with a slash in the pointer") {
  Schedule schedule = valid();
  schedule.placement[kC] = kCpu0;
  check_only_finding(schedule, "no-device", "op 'c/1' is on device 'cpu0', which cannot run it", "/placement/c~11");
  CHECK(findings_of(schedule)[0].help == "put it on one that can: gpu0, gpu1");
}

TEST_CASE("a colocation group on two devices") {
  Schedule schedule = valid();
  schedule.placement[kD] = kGpu1;
  check_only_finding(schedule, "colocation", "ops 'c/1' and 'd' of colocation group 'cd' are on 'gpu0' and 'gpu1'",
                     "/placement/d");
}

TEST_CASE("a priority that is no finite number, under any policy") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Schedule schedule = valid();
    schedule.priority = IdMap<OpId, double>(5, 1.0);
    schedule.priority[kC] = bad;
    check_only_finding(schedule, "not-a-number", "the priority of op 'c/1' is not a finite number", "/priority/c~11");
  }
}

TEST_CASE("priorities for some ops only") {
  Schedule schedule = valid();
  schedule.priority = IdMap<OpId, double>(3, 1.0);
  check_only_finding(schedule, "size", "there are 3 priorities for the 5 ops of graph 'net'", "/priority");
}

TEST_CASE("strict orders that follow the graph are schedules") {
  CHECK(findings_of(strict({kD, kA, kB, kC, kZ})).empty());
  CHECK(findings_of(strict({kB, kD, kC, kZ}, {kA})).empty());
}

TEST_CASE("an op of zero duration may stand anywhere in a strict order, for it takes no turn") {
  CHECK(findings_of(strict({kZ, kA, kB, kC, kD})).empty());
}

TEST_CASE("a strict policy without an order") {
  Schedule schedule = valid();
  schedule.policy = Policy::strict;
  check_only_finding(schedule, "order", "the policy is strict, but the order lists 0 of the 3 devices", "/order");
}

TEST_CASE("an order without one of its ops") {
  check_only_finding(strict({kA, kB, kC, kD}), "order", "op 'z' is missing from the order of device 'gpu0'",
                     "/order/gpu0");
}

TEST_CASE("an order with an op twice") {
  check_only_finding(strict({kA, kB, kA, kC, kD, kZ}), "order", "op 'a' is twice in the order of device 'gpu0'",
                     "/order/gpu0");
}

TEST_CASE("an order with an op of another device") {
  Schedule schedule = strict({kA, kB, kC, kD, kZ});
  schedule.placement[kA] = kGpu1;
  check_only_finding(schedule, "order", "op 'a' is in the order of device 'gpu0', but is placed on 'gpu1'",
                     "/order/gpu0");
}

TEST_CASE("an order with an op that the graph does not have") {
  Schedule schedule = strict({kA, kB, kC, kD, kZ});
  schedule.order[kGpu1].push_back(OpId{9});
  check_only_finding(schedule, "order", "the order of device 'gpu1' lists an op that graph 'net' does not have",
                     "/order/gpu1");
}

TEST_CASE("an order against the graph on one device is a deadlock, named in full") {
  check_only_finding(strict({kB, kA, kC, kD, kZ}), "deadlock",
                     "the strict order can never run: 'a' is behind 'b' in the order of 'gpu0', 'b' needs tensor 'ta' "
                     "of 'a'",
                     "/order/gpu0");
}

TEST_CASE("two orders that wait for each other are a deadlock across devices") {
  // gpu0 runs c/1 before a, and gpu1 runs b. But c/1 comes after b, and b needs a: a cycle.
  const auto findings = findings_of(strict({kC, kA, kD, kZ}, {kB}));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "deadlock");
  CHECK(findings[0].message ==
        "the strict order can never run: 'a' is behind 'c/1' in the order of 'gpu0', 'c/1' comes after 'b', 'b' needs "
        "tensor 'ta' of 'a'");
}

TEST_CASE("several findings are reported at once, and at most twenty") {
  Schedule schedule = valid();
  schedule.placement[kA] = DeviceId::none();
  schedule.placement[kC] = kCpu0;
  CHECK(findings_of(schedule).size() == 2);

  GraphBuilder builder{"many"};
  for (int i = 0; i < 50; ++i) builder.add({.name = std::to_string(i), .times = {{"gpu", Nanoseconds{1}}}});
  ClusterSpec cluster;
  cluster.devices.push_back({.name = "gpu0", .kind = "", .device_class = "gpu"});
  const Problem many{std::move(builder).build(), make_cluster(cluster)};
  CHECK(test::findings_of([&] { check_schedule(many, {.placement = Placement(50)}); }).size() == kMostFindings);
}

}  // namespace
}  // namespace trainyard::test
