#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "simulate/small_instance.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/cost/calibration.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/memory_load.hpp"
#include "trainyard/simulate/critical_path.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::test {
namespace {

/// Costs that give only the sensitivity of ops to copies. The graph gives all op times.
struct Sensitive {
  double sensitivity = 0;
  bool odd_ones = false;  // if set, ops of even ids are not sensitive

  std::optional<OpCost> op_cost(const Graph&, OpId, const Device&) const { return std::nullopt; }
  double copy_sensitivity(const Graph&, OpId op, const Device&) const {
    return odd_ones && op.index() % 2 == 0 ? 0 : sensitivity;
  }
};

/// Two devices with a memory bandwidth of 4 bytes per ns, joined by a link of 1.
ClusterSpec pair_of_devices() {
  ClusterSpec spec = linked(2);
  for (Device& device : spec.devices) device.memory_bandwidth = BytesPerSecond{4e9};
  return spec;
}

/// Op s on d0 sends `bytes` at 0 to op r on d1. Ops a on d0 and b on d1 run from 0 on, for 100 ns if not slowed.
Problem sender_beside_ops(std::int64_t bytes, double sensitivity) {
  GraphBuilder builder{"beside"};
  const auto time = [](std::int64_t ns) { return std::vector<GivenTime>{{"gpu", Nanoseconds{ns}}}; };
  builder.add({.name = "s", .times = time(0), .outputs = {{"t", Bytes{bytes}}}});
  builder.add({.name = "a", .times = time(100)});
  builder.add({.name = "b", .times = time(100)});
  builder.add({.name = "r", .times = time(10), .inputs = {"t"}});
  return Problem{std::move(builder).build(), make_cluster(pair_of_devices()), Costs{Sensitive{sensitivity}}};
}

Schedule two_on_each() {
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{0}, DeviceId{1}, DeviceId{1}});
  return schedule;
}

TEST_CASE("an op beside a copy goes on at 1 / (1 + s L), and alone as before") {
  // 60 bytes take 60 ns, and L = 1/4 of the memory's 4 bytes per ns. With s = 2, ops run at 1 / 1.5. In 60 ns they do
  // 40 of their 100 ns, and the other 60 alone: 120.
  const Timeline slowed = simulate(sender_beside_ops(60, 2), two_on_each());
  REQUIRE(slowed.transfers[0].end == Nanoseconds{60});
  CHECK(slowed.ops[OpId{1}] == span_of(0, 120));
  CHECK(slowed.ops[OpId{2}] == span_of(0, 120));
  CHECK(slowed.ops[OpId{3}] == span_of(120, 130));
  CHECK(slowed.devices[DeviceId{0}].busy == Nanoseconds{120});
  // A copy of 600 bytes outlasts the ops: 100 x 1.5. Op r comes after the copy and takes its 10.
  const Timeline all_along = simulate(sender_beside_ops(600, 2), two_on_each());
  CHECK(all_along.ops[OpId{1}] == span_of(0, 150));
  CHECK(all_along.ops[OpId{3}] == span_of(600, 610));
  // With a sensitivity of 0, no op is slowed.
  CHECK(simulate(sender_beside_ops(600, 0), two_on_each()).ops[OpId{1}] == span_of(0, 100));
  CHECK_FALSE(sender_beside_ops(600, 0).copies_slow_ops());
}

TEST_CASE("ops of two parts of one GPU slow each other by the share of its memory that they take, and no others do") {
  GraphBuilder builder{"neighbours"};
  for (const auto& [name, bytes] : {std::pair{"a", 200}, {"b", 100}})
    builder.add({.name = name, .bytes_accessed = Bytes{bytes}, .times = {{"gpu", Nanoseconds{100}}}});
  ClusterSpec spec = pair_of_devices();
  const Problem apart{std::move(builder).build(), make_cluster(spec), Costs{Sensitive{2}}};
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{1}});
  CHECK(simulate(apart, schedule).ops[OpId{1}] == span_of(0, 100));
  for (Device& device : spec.devices) device.part_of = "the GPU";
  const Problem parts = apart.with_machine(make_cluster(spec), Costs{Sensitive{2}});
  // a takes 2 of the memory's 4 bytes per ns, and b takes 1. a runs at 1 / (1 + 2 / 4) and ends at 150. Until then b
  // runs at 1 / (1 + 2 / 2) and does 75 of its 100 ns; the rest it does alone.
  const Timeline timeline = simulate(parts, schedule);
  CHECK(timeline.ops[OpId{0}] == span_of(0, 150));
  CHECK(timeline.ops[OpId{1}] == span_of(0, 175));
  // On one device they run one after the other, at full speed.
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{0}});
  CHECK(simulate(parts, schedule).makespan == Nanoseconds{200});
  spec.devices[1].memory_bandwidth = BytesPerSecond{5e9};
  CHECK_THROWS_WITH_AS(make_cluster(spec), doctest::Contains("differ in memory_bandwidth"), InputError);
}

TEST_CASE("times that are given in place of the problem's have the interference in them") {
  const Problem problem = sender_beside_ops(60, 2);
  const IdMap<OpId, Nanoseconds> measured(
      std::vector<Nanoseconds>{Nanoseconds{0}, Nanoseconds{120}, Nanoseconds{120}, Nanoseconds{10}});
  CHECK(Simulation{problem}.makespan(two_on_each(), measured) == Nanoseconds{130});
  CHECK(Simulation{problem}.makespan(two_on_each()) == Nanoseconds{130});
}

TEST_CASE("copies together take no more than the memory's bandwidth") {
  CHECK(memory_load(Bytes{100}, Nanoseconds{50}, BytesPerSecond{4e9}) == 500'000);
  CHECK(memory_load(Bytes{1'000}, Nanoseconds{50}, BytesPerSecond{4e9}) == 1'000'000);
  CHECK(memory_load(Bytes{1'000}, Nanoseconds{0}, BytesPerSecond{4e9}) == 0);
  CHECK(memory_load(Bytes{1'000}, Nanoseconds{50}, BytesPerSecond{0}) == 0);
  CHECK(slowed_rate(1'000, 1'000'000) == std::int64_t{1} << 39);  // s = 1, L = 1: half the rate
  CHECK(slowed_rate(1'000, 3'000'000) == std::int64_t{1} << 39);
  CHECK(slowed_rate(0, 1'000'000) == std::int64_t{1} << 40);
}

TEST_CASE(
    "random problems whose ops copies and neighbours slow run as the naive simulator runs them, and the horizon "
    "holds") {
  Random random{91};
  std::size_t slowed = 0, with_flows = 0, with_collectives = 0, by_neighbours = 0;
  for (int round = 0; round < test::rounds(400); ++round) {
    CAPTURE(round);
    const Problem plain = random_problem(random, {.collectives = static_cast<std::size_t>(round % 3),
                                                  .accesses = true,
                                                  .fair_links = round % 2 == 1 ? 0.5 : 0.0});
    ClusterSpec spec = plain.cluster().spec();
    const auto part = round % 4 < 2 ? random.below(3) : 0;  // devices are parts of up to two GPUs
    for (Device& device : spec.devices)
      device.memory_bandwidth = BytesPerSecond{1e9 * static_cast<double>(random.below(4))};
    for (std::size_t i = 0; part > 0 && i < spec.devices.size(); ++i) {
      spec.devices[i].part_of = i % 3 == 2 ? "" : i % 3 < part ? "one" : "other";
      spec.devices[i].memory_bandwidth = i % 3 == 2 ? spec.devices[i].memory_bandwidth : BytesPerSecond{3e9};
    }
    const Problem problem =
        plain.with_machine(make_cluster(std::move(spec)),
                           Costs{Sensitive{0.5 * static_cast<double>(1 + random.below(6)), round % 5 == 0}});
    const Schedule schedule = random_schedule(random, problem);
    Timeline found = simulate(problem, schedule);
    for (DeviceUse& use : found.devices) use.out_of_memory.reset();  // naive_simulate() does not set it
    REQUIRE(found == naive_simulate(problem, schedule));
    CHECK(found.makespan <= problem.horizon());
    CHECK(Simulation{problem}.makespan(schedule) == found.makespan);
    CHECK(critical_path(problem, schedule, found).front().cause == PathStep::Cause::start);
    bool longer = false;
    for (const OpId op : problem.ops())
      longer = longer || (!problem.graph().collective(op) &&
                          found.ops[op].end - found.ops[op].start != problem.duration(op, schedule.placement[op]));
    slowed += longer;
    with_flows += longer && problem.cluster().has_fair_channels();
    with_collectives += longer && problem.graph().has_collectives();
    by_neighbours += longer && part > 0 && found.transfers.empty();
  }
  CAPTURE(slowed);
  CAPTURE(with_flows);
  CHECK(slowed > test::rounds(100U));
  CHECK(with_flows > test::rounds(20U));
  CHECK(with_collectives > test::rounds(20U));
  CHECK((by_neighbours > 0 || test::is_sanitized()));
}

TEST_CASE("a calibration's interference slows ops of its types") {
  GraphBuilder builder{"beside"};
  builder.add({.name = "s", .times = {{"gpu", Nanoseconds{0}}}, .outputs = {{"t", Bytes{600}}}});
  builder.add({.name = "a", .type = "Relu", .signature = "a", .flops = Flops{100}});
  builder.add({.name = "b", .type = "Conv", .signature = "b", .flops = Flops{100}});
  builder.add({.name = "r", .times = {{"gpu", Nanoseconds{10}}}, .inputs = {"t"}});
  ClusterSpec spec = pair_of_devices();
  for (Device& device : spec.devices) device.kind = "K";
  Calibration calibration;
  for (const char* signature : {"a", "b"})
    calibration.ops.push_back({.device_kind = "K", .signature = signature, .mean = Nanoseconds{100}});
  const Problem without{std::move(builder).build(), make_cluster(spec), Costs{cost_model(calibration)}};
  CHECK_FALSE(without.copies_slow_ops());
  calibration.interference = {{"K", "Relu", 2, 3}};
  const Problem problem = without.with_machine(without.cluster(), Costs{cost_model(calibration)});
  CHECK(simulate(problem, two_on_each()).ops[OpId{1}] == span_of(0, 150));
  CHECK(simulate(problem, two_on_each()).ops[OpId{2}] == span_of(0, 100));
}

TEST_CASE("costs whose sensitivity is no number from 0 to 1,000 are refused") {
  for (const double wrong : {-0.1, 1'001.0, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_WITH_AS(sender_beside_ops(60, wrong), doctest::Contains("the sensitivity to copies is"), InputError);
}

}  // namespace
}  // namespace trainyard::test
