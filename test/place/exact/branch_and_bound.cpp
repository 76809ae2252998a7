#include "trainyard/place/exact/branch_and_bound.hpp"

#include <doctest/doctest.h>

#include <cstdint>

#include "place/exact/layered.hpp"
#include "place/instances.hpp"
#include "simulate/best_schedule.hpp"
#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/exact/exact.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

/// Checks that the schedule is valid, fits and has the result's makespan, and that the bound is not above it.
void check_result(const Problem& problem, const BranchAndBoundResult& result) {
  REQUIRE(result.bound <= result.value);
  if (!result.schedule) return;
  REQUIRE_NOTHROW(check_schedule(problem, *result.schedule));
  const Timeline timeline = simulate(problem, *result.schedule);
  REQUIRE(timeline.fits());
  REQUIRE(timeline.makespan == result.value);
}

TEST_CASE("a fork and a join of 2, 3, 3 and 1: two devices where tensors are small, one where they are not") {
  const auto fork_join = [](std::int64_t bytes) {
    return SmallInstance{{{0, 2}, {0, 3}, {0, 3}, {0, 1}},
                         {{0, {1}, bytes}, {0, {2}, bytes}, {1, {3}, bytes}, {2, {3}, bytes}}};
  };
  const auto small = branch_and_bound(problem_of(fork_join(1), linked(2)));
  CHECK(small.value == Nanoseconds{7});
  CHECK(small.optimal());
  const auto large = branch_and_bound(problem_of(fork_join(3), linked(2)));
  CHECK(large.value == Nanoseconds{9});  // 2 + 3 + 3 + 1 on one device
  CHECK(large.optimal());
}

TEST_CASE("a chain of five and two long ops end at 7 on two devices and at 5 on three") {
  const SmallInstance instance{{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 4}, {0, 4}},
                               {{0, {1}, 1}, {1, {2}, 1}, {2, {3}, 1}, {3, {4}, 1}}};
  for (const auto& [devices, value] : {std::pair{2, 7}, std::pair{3, 5}}) {
    const Problem problem = problem_of(instance, linked(static_cast<std::size_t>(devices)));
    const auto result = branch_and_bound(problem);
    check_result(problem, result);
    CHECK(result.value == Nanoseconds{value});
    CHECK(result.optimal());
  }
}

TEST_CASE("two tensors on one link: ops that stay where they are, 10") {
  // 1 for each op on device 0, 4 + 4 on the link, then 1: 1 + 4 + 4 + 1.
  const SmallInstance instance{{{0, 1}, {0, 1}, {1, 1}, {1, 1}}, {{0, {2}, 4}, {1, {3}, 4}}};
  const Problem problem = problem_of(instance, linked(2));
  BranchAndBoundOptions options;
  options.fixed = schedule_of(instance).placement;
  const auto result = branch_and_bound(problem, options);
  CHECK(result.value == Nanoseconds{10});
  CHECK(result.optimal());
  CHECK(result.schedule->placement == options.fixed);
  CHECK(branch_and_bound(problem).value == Nanoseconds{2});  // 0 and 2 on one device, 1 and 3 on the other
}

TEST_CASE("the examples of two papers on three heterogeneous processors without contention: 73 and 113") {
  for (const auto& [instance, value] : {std::pair{topcuoglu(), 73}, std::pair{arabnejad(), 113}}) {
    const Problem problem = make_problem(instance, Sharing::none);
    const auto result = branch_and_bound(problem);
    check_result(problem, result);
    CHECK(result.value == Nanoseconds{value});
    CHECK(result.optimal());
  }
}

TEST_CASE("brute force over all placements and orders finds nothing shorter") {
  std::size_t proven = 0, equal = 0, count = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(1500U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(23, seed);
    RandomProblemOptions options;
    options.most_devices = seed % 8 == 0 ? 3 : 2;
    options.most_ops = seed < 100 ? 6 : 5;
    options.memory = seed % 2 == 0;
    options.zero_times = seed % 3 == 0 ? 0 : 0.2;
    const Problem problem = random_problem(random, options);
    const auto result = branch_and_bound(problem);
    check_result(problem, result);
    REQUIRE(result.complete);
    const Nanoseconds least = least_makespan(problem, true);
    if (least == kLongestTime) continue;
    ++count;
    REQUIRE(result.bound <= least);
    REQUIRE(result.value.count < kLongestTime.count);
    equal += result.value <= least;
    proven += result.optimal();
  }
  CHECK(equal == count);
  CHECK(proven * 100 > count * 95);
}

TEST_CASE("layered graphs of 25 ops on two devices with serialized links are solved") {
  for (const std::uint64_t seed : {1u, 4u, 11u, 12u}) {
    CAPTURE(seed);
    const Problem problem{layered_graph(25, seed), make_cluster(linked(2))};
    const auto result = exact_schedule(problem);
    check_result(problem, result);
    CHECK(result.optimal());
    CHECK(best_lower_bound(problem).value <= result.value);
  }
}

TEST_CASE("a search that is cut short gives what it has, with a bound that holds") {
  const Problem problem{layered_graph(25, 12), make_cluster(linked(2))};
  const auto whole = exact_schedule(problem);
  REQUIRE(whole.optimal());
  for (const std::uint64_t nodes : {1u, 100u, 1000u}) {
    const auto part = exact_schedule(problem, nodes);
    check_result(problem, part);
    if (part.complete) CHECK(part.value == whole.value);
    if (nodes == 1) CHECK(!part.complete);
    CHECK(part.bound <= whole.value);
    CHECK(part.value >= whole.value);
  }
  BranchAndBoundOptions options;
  options.upper_limit = whole.value;  // only shorter schedules, of which there are none
  const auto none = branch_and_bound(problem, options);
  CHECK(!none.schedule);
  CHECK(none.bound == whole.value);
  CHECK(none.complete);
}

TEST_CASE("a search over many devices asks at every other node whether to end") {
  // 25 ops on 16 devices: a bound visits 25 x 16 x 16 = 6,400 pairs. The 16,384 pairs between two checks of the time
  // are at least two nodes.
  const Problem problem{layered_graph(25, 12), make_cluster(linked(16))};
  std::uint64_t asked = 0;
  const auto result = branch_and_bound(problem, {.stop = [&asked] { return ++asked == 10; }});
  CHECK(!result.complete);
  CHECK(result.nodes == 20);
}

TEST_CASE("exact looks for no bound once it is stopped") {
  const Problem problem{layered_graph(25, 12), make_cluster(linked(2))};
  const auto result = exact_schedule(problem, 0, [] { return true; });
  check_result(problem, result);
  CHECK(result.bound == Nanoseconds{0});
}

TEST_CASE("what is fixed is on devices of the problem, or free") {
  const Problem problem = problem_of({{{0, 2}, {0, 3}}, {{0, {1}, 1}}}, linked(2));
  CHECK(branch_and_bound(problem, {.fixed = Placement(2)}).optimal());
  for (const Placement& fixed : {Placement(1, DeviceId{1}), Placement(3, DeviceId{1}), Placement(2, DeviceId{9})})
    CHECK_THROWS_AS(branch_and_bound(problem, {.fixed = fixed}), InputError);
}

}  // namespace
}  // namespace trainyard::test
