#include "trainyard/bound/lower_bounds.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "simulate/best_schedule.hpp"
#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/bound/chains.hpp"
#include "trainyard/bound/linear.hpp"
#include "trainyard/bound/memory.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

TEST_CASE("a chain and two long ops: the bounds by hand") {
  const SmallInstance instance{{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 4}, {0, 4}},
                               {{0, {1}, 1}, {1, {2}, 1}, {2, {3}, 1}, {3, {4}, 1}}};
  const Problem two = problem_of(instance, linked(2)), three = problem_of(instance, linked(3));
  CHECK(critical_path_bound(two) == Nanoseconds{5});
  CHECK(work_bound(two) == Nanoseconds{7});    // 13 / 2, rounded up
  CHECK(work_bound(three) == Nanoseconds{5});  // 13 / 3, rounded up
  CHECK(colocation_bound(two) == Nanoseconds{4});
  CHECK(best_lower_bound(two) == LowerBound{"work", Nanoseconds{7}});
  CHECK(best_lower_bound(three) == LowerBound{"critical-path", Nanoseconds{5}});
}

TEST_CASE("between a head of 5 and a tail of 2 the middle's work counts alone") {
  // Op 0 (5) feeds ops 1 to 4 (3 each), which feed op 5 (2).
  const SmallInstance instance{{{0, 5}, {0, 3}, {0, 3}, {0, 3}, {0, 3}, {0, 2}},
                               {{0, {1, 2, 3, 4}, 0}, {1, {5}, 0}, {2, {5}, 0}, {3, {5}, 0}, {4, {5}, 0}}};
  const Problem problem = problem_of(instance, linked(2));
  CHECK(critical_path_bound(problem) == Nanoseconds{10});  // 5 + 3 + 2
  CHECK(work_bound(problem) == Nanoseconds{10});           // 19 / 2, rounded up
  CHECK(head_tail_bound(problem) == Nanoseconds{13});      // 5 + 12 / 2 + 2
}

TEST_CASE("work is split between fast and slow devices as well as it can be") {
  ClusterSpec cluster = linked(2);
  cluster.devices[1].device_class = "cpu";
  const auto problem = [&](std::size_t ops) {
    GraphBuilder builder{"alike"};
    for (std::size_t i = 0; i < ops; ++i)
      builder.add({.name = std::to_string(i), .times = {{"gpu", Nanoseconds{2}}, {"cpu", Nanoseconds{4}}}});
    return Problem{std::move(builder).build(), make_cluster(cluster)};
  };
  CHECK(work_bound(problem(6)) == Nanoseconds{8});   // 4 ops x 2 = 2 ops x 4
  CHECK(work_bound(problem(7)) == Nanoseconds{10});  // 14 / 1.5 = 9.33, rounded up
}

TEST_CASE("three classes of devices: no device has to be idle in the bound") {
  ClusterSpec cluster = linked(3);
  GraphBuilder builder{"three"};
  for (std::size_t i = 0; i < 11; ++i)
    builder.add({.name = std::to_string(i),
                 .times = {{"d0", Nanoseconds{200}}, {"d1", Nanoseconds{300}}, {"d2", Nanoseconds{600}}}});
  const Problem problem{std::move(builder).build(), make_cluster(cluster)};
  REQUIRE(problem.column_count() == 3);
  CHECK(work_bound(problem) <= Nanoseconds{1100});  // 1100 / 200 + 1100 / 300 + 1100 / 600 = 11
  CHECK(work_bound(problem) >= Nanoseconds{1050});  // the numeric search ends just below
}

TEST_CASE("a gap counts between ops and not behind the last") {
  ClusterSpec cluster = linked(1);
  cluster.devices[0].gap = Nanoseconds{10};
  const SmallInstance instance{{{0, 1}, {0, 2}, {0, 0}, {0, 3}}, {}};
  CHECK(work_bound(problem_of(instance, cluster)) == Nanoseconds{26});  // 1 + 10 + 2 + 10 + 3
}

TEST_CASE("a colocation group runs on one device") {
  GraphBuilder builder{"group"};
  for (const char* name : {"a", "b", "c"})
    builder.add({.name = name, .colocate = "g", .times = {{"gpu", Nanoseconds{4}}}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(3))};
  CHECK(colocation_bound(problem) == Nanoseconds{12});  // 3 x 4
}

TEST_CASE("a join of two waits for a transfer, or for both on one device") {
  // 0 (4) and 1 (4) -> 2 (1), tensors of 3. Op 2 starts at 4 + 4 = 8 on one device, at 4 + 3 = 7 on two.
  const SmallInstance instance{{{0, 4}, {0, 4}, {0, 1}}, {{0, {2}, 3}, {1, {2}, 3}}};
  const Problem two = problem_of(instance, linked(2)), one = problem_of(instance, linked(1));
  CHECK(critical_path_bound(two) == Nanoseconds{5});  // 4 + 1
  CHECK(transfer_path_bound(two) == Nanoseconds{8});  // 4 + 3 + 1
  CHECK(transfer_path_bound(one) == Nanoseconds{9});  // 4 + 4 + 1
  CHECK(least_makespan(two) == Nanoseconds{8});
}

TEST_CASE("a fork waits for a transfer, or for both on one device") {
  const SmallInstance instance{{{0, 1}, {0, 4}, {0, 4}}, {{0, {1, 2}, 10}}};
  const Problem problem = problem_of(instance, linked(2));
  CHECK(transfer_path_bound(problem) == Nanoseconds{9});  // 1 + 4 + 4 on one device; 1 + 10 + 4 with a transfer
  CHECK(least_makespan(problem) == Nanoseconds{9});
}

TEST_CASE("a transfer takes what the costs say of the route's latency") {
  // A diamond of ops of 10. A transfer takes latency 10 + 1 for the byte; at ten times the link speed, 1 in all.
  const SmallInstance diamond{{{0, 10}, {0, 10}, {0, 10}, {0, 10}}, {{0, {1, 2}, 1}, {1, {3}, 1}, {2, {3}, 1}}};
  ClusterSpec cluster = linked(2);
  for (Link& link : cluster.links) link.latency = Nanoseconds{10};
  const Problem slow = problem_of(diamond, cluster);
  const Problem fast = slow.with_machine(slow.cluster(), slow.costs().at({.link = 10}));
  CHECK(transfer_path_bound(slow) == Nanoseconds{40});  // all on one device
  CHECK(transfer_path_bound(fast) == Nanoseconds{31});  // 10 + 10 + 1 + 10
  CHECK(least_makespan(fast) == Nanoseconds{31});
}

/// Ops a (5) -> b (7), joined by a tensor of 3 bytes, with `a` and `b` bytes of parameters, on two GPUs of 10 bytes
/// each.
Problem chain_with_residents(std::int64_t a, std::int64_t b) {
  GraphBuilder builder{"chain"};
  builder.add(
      {.name = "a", .parameter_bytes = Bytes{a}, .times = {{"gpu", Nanoseconds{5}}}, .outputs = {{"t", Bytes{3}}}});
  builder.add({.name = "b", .parameter_bytes = Bytes{b}, .times = {{"gpu", Nanoseconds{7}}}, .inputs = {"t"}});
  ClusterSpec cluster = linked(2);
  for (Device& device : cluster.devices) device.memory = Bytes{10};
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

TEST_CASE("where one device cannot hold a connected graph, some tensor crosses") {
  CHECK(forced_transfer_bound(chain_with_residents(6, 5)) == Nanoseconds{15});  // 5 + 3 + 7
  CHECK(forced_transfer_bound(chain_with_residents(6, 4)) == Nanoseconds{0});
}

TEST_CASE("what does not fit on the fast device is work for the slow one") {
  // Ten ops of 1 byte take 1 ns on the GPU, which holds 4, and 10 ns on the CPU, which has no limit: 4 there, 6 here.
  GraphBuilder builder{"ten"};
  for (std::size_t i = 0; i < 10; ++i)
    builder.add({.name = std::to_string(i),
                 .parameter_bytes = Bytes{1},
                 .times = {{"gpu", Nanoseconds{1}}, {"cpu", Nanoseconds{10}}}});
  ClusterSpec cluster = linked(2);
  cluster.devices[0].memory = Bytes{4};
  cluster.devices[1].device_class = "cpu";
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  CHECK(work_bound(problem) == Nanoseconds{10});         // 10 / 1.1 = 9.1
  CHECK(memory_work_bound(problem) >= Nanoseconds{58});  // the numeric search ends just below
  CHECK(memory_work_bound(problem) <= Nanoseconds{60});  // 6 x 10
  CHECK(linear_program_bound(problem) == Nanoseconds{60});
}

/// Cost model whose latencies are half of those that the cluster gives.
struct QuickRoutes {
  std::optional<OpCost> op_cost(const Graph&, OpId, const Device&) const { return std::nullopt; }
  Nanoseconds latency(const RouteClass& route) const { return Nanoseconds{route.latency.count / 2}; }
};

/// The problem with link speeds scaled by 1, 10, 3 or 0.3, or with the costs of QuickRoutes, by seed.
Problem with_other_links(const Problem& problem, std::uint64_t seed) {
  constexpr std::array kSpeeds{1.0, 10.0, 3.0, 0.3};
  if (seed % 5 == 4) return problem.with_machine(problem.cluster(), QuickRoutes{});
  return problem.with_machine(problem.cluster(), problem.costs().at({.link = kSpeeds[seed % 5]}));
}

bool needs_fit(const std::string& bound) {
  return bound == "memory-work" || bound == "linear-program" || bound == "forced-transfer";
}

TEST_CASE("the linear program splits work among three classes exactly") {
  GraphBuilder builder{"three"};
  for (std::size_t i = 0; i < 11; ++i)
    builder.add({.name = std::to_string(i),
                 .times = {{"d0", Nanoseconds{200'000}}, {"d1", Nanoseconds{300'000}}, {"d2", Nanoseconds{600'000}}}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(3))};
  // 1,100,000 / 200,000 + 1,100,000 / 300,000 + 1,100,000 / 600,000 = 11
  CHECK(linear_program_bound(problem) <= Nanoseconds{1'100'000});
  CHECK(linear_program_bound(problem) >= Nanoseconds{1'099'998});
}

TEST_CASE("no bound is above the least makespan of any placement and order") {
  std::size_t tight = 0, none_fits = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(1200U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(17, seed);
    RandomProblemOptions options;
    options.most_devices = seed < 1000 ? 2 : 3;
    options.most_ops = seed < 100 ? 6 : 5;
    options.memory = seed % 2 == 0;
    const Problem problem = with_other_links(random_problem(random, options), seed);
    const Nanoseconds least = least_makespan(problem), fitting = least_makespan(problem, true);
    none_fits += fitting == kLongestTime;
    for (const LowerBound& bound : lower_bounds(problem)) {
      CAPTURE(bound.name);
      const bool memory = needs_fit(bound.name);
      REQUIRE(bound.value <= (memory ? fitting : least));
    }
    CHECK(transfer_path_bound(problem) >= critical_path_bound(problem));
    tight += best_lower_bound(problem).value == fitting;
  }
  CHECK(tight > test::rounds(400U));
  CHECK(none_fits > test::rounds(20U));
}

TEST_CASE("no bound is above the makespan of any schedule") {
  const auto seeds = test::rounds<std::uint64_t>(3000);
  std::size_t fitting = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(19, seed);
    RandomProblemOptions options;
    options.most_ops = 25;
    const Problem problem = with_other_links(random_problem(random, options), seed);
    const Timeline timeline = simulate(problem, random_schedule(random, problem));
    fitting += timeline.fits();
    for (const LowerBound& bound : lower_bounds(problem)) {
      CAPTURE(bound.name);
      const bool memory = needs_fit(bound.name);
      if (!memory || timeline.fits()) REQUIRE(bound.value <= timeline.makespan);
    }
  }
  CHECK(fitting > seeds / 6);
}

}  // namespace
}  // namespace trainyard::test
