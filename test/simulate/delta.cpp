#include "trainyard/simulate/delta.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::test {
namespace {

using Outcome = DeltaResult::Outcome;

DeviceId able_device(Random& random, const Problem& problem, std::span<const OpId> ops) {
  for (;;) {
    const DeviceId device{random.below(problem.device_count())};
    if (std::ranges::all_of(ops, [&](OpId op) { return problem.can_run(op, device); })) return device;
  }
}

bool valid(const Problem& problem, const Schedule& schedule) {
  return findings_of([&] { check_schedule(problem, schedule); }).empty();
}

/// Result of a tried change, and the schedule that it should give, made by hand. There is none if the DeltaSimulation
/// chooses the place in the order.
struct Tried {
  DeltaResult result;
  std::optional<Schedule> expected;
};

void take_out(Schedule& schedule, OpId op) {
  auto& order = schedule.order[schedule.placement[op]];
  order.erase(std::ranges::find(order, op));
}

/// Tries one random change of a random kind.
Tried try_something(Random& random, const Problem& problem, DeltaSimulation& delta, Nanoseconds limit) {
  Schedule expected = delta.schedule();
  const OpId op{random.below(problem.op_count())};
  const auto group = problem.group_ops(problem.group(op));
  const bool strict = expected.policy == Policy::strict;
  const std::uint64_t kind = random.below(strict ? 4 : 6);
  if (kind == 0 && strict) {
    const auto& order = expected.order[expected.placement[op]];
    const OpId other = order[random.below(order.size())];
    auto& changed = expected.order[expected.placement[op]];
    std::iter_swap(std::ranges::find(changed, op), std::ranges::find(changed, other));
    const DeltaResult result = delta.try_swap(op, other, limit);
    return {result, std::move(expected)};
  }
  if (kind == 1 && strict && group.size() == 1) {
    const DeviceId to = able_device(random, problem, group);
    take_out(expected, op);
    auto& order = expected.order[to];
    const std::size_t place = random.below(order.size() + 1);
    const std::optional<OpId> behind = place == 0 ? std::nullopt : std::optional{order[place - 1]};
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), op);
    expected.placement[op] = to;
    return {delta.try_move(op, to, behind, limit), std::move(expected)};
  }
  if (kind == 0 && !expected.priority.empty()) {
    const double priority = static_cast<double>(random.between(-4, 4)) / 2;
    expected.priority[op] = priority;
    return {delta.try_priority(op, priority, limit), std::move(expected)};
  }
  std::vector<OpId> ops(group.begin(), group.end());
  if (kind == 2) {  // several groups to one device
    const OpId other{random.below(problem.op_count())};
    if (problem.group(other) != problem.group(op))
      for (const OpId more : problem.group_ops(problem.group(other))) ops.push_back(more);
    bool able = false;
    for (const DeviceId device : problem.devices())
      able = able || std::ranges::all_of(ops, [&](OpId o) { return problem.can_run(o, device); });
    if (!able) ops.assign(group.begin(), group.end());
  }
  const DeviceId to = able_device(random, problem, ops);
  const DeltaResult result = delta.try_move(ops, to, limit);
  if (strict) return {result, std::nullopt};
  for (const OpId moved : ops) expected.placement[moved] = to;
  return {result, std::move(expected)};
}

struct Counts {
  std::size_t tried = 0, accepted = 0, above = 0, deadlocks = 0;
};

void walk_at_random(Random& random, const Problem& problem, const Schedule& start, std::size_t steps, Counts& counts) {
  Simulation simulation{problem};
  DeltaSimulation delta{problem, start};
  REQUIRE(delta.makespan() == simulation.makespan(start));
  for (std::size_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    const Schedule before = delta.schedule();
    const Nanoseconds makespan = delta.makespan();
    const Nanoseconds limit =
        random.chance(0.3) ? Nanoseconds{makespan.count + random.between(-3, 3)} : DeltaSimulation::kNoLimit;
    const Tried tried = try_something(random, problem, delta, limit);
    ++counts.tried;
    if (!tried.result.complete()) {
      REQUIRE(delta.schedule() == before);
      REQUIRE(delta.makespan() == makespan);
      if (tried.result.outcome == Outcome::deadlock) {
        ++counts.deadlocks;
        REQUIRE(tried.expected);
        REQUIRE(!valid(problem, *tried.expected));
      } else {
        ++counts.above;
        REQUIRE(tried.result.makespan > limit);
        if (tried.expected && valid(problem, *tried.expected))
          REQUIRE(simulation.makespan(*tried.expected) >= tried.result.makespan);
      }
      continue;
    }
    const Schedule changed = delta.schedule();
    if (tried.expected) REQUIRE(changed == *tried.expected);
    if (before.policy == Policy::strict) REQUIRE(valid(problem, changed));
    REQUIRE(delta.makespan() == tried.result.makespan);
    REQUIRE(simulation.makespan(changed) == tried.result.makespan);
    REQUIRE(tried.result.makespan <= limit);
    if (random.chance(0.05)) REQUIRE(delta.timeline() == simulation.timeline(changed));
    if (random.chance(0.5)) {
      delta.accept();
      ++counts.accepted;
      REQUIRE(delta.makespan() == tried.result.makespan);
      if (random.chance(0.3)) REQUIRE(delta.timeline() == simulation.timeline(changed));
    } else {
      delta.reject();
      REQUIRE(delta.schedule() == before);
      REQUIRE(delta.makespan() == makespan);
    }
  }
  REQUIRE(delta.timeline() == simulation.timeline(delta.schedule()));
}

constexpr Nanoseconds ns(std::int64_t count) { return Nanoseconds{count}; }

TEST_CASE("moving a consumer home saves its transfer, and taking the move back brings it again") {
  const SmallInstance instance{{{0, 2}, {1, 4}}, {{0, {1}, 3}}};
  DeltaSimulation delta{problem_of(instance, linked(2)), schedule_of(instance)};
  CHECK(delta.makespan() == ns(9));  // 2 + 3 + 4
  const OpId consumer[] = {OpId{1}};
  CHECK(delta.try_move(consumer, DeviceId{0}) == DeltaResult{Outcome::complete, ns(6)});  // 2 + 4
  CHECK(delta.makespan() == ns(6));
  CHECK(delta.schedule().placement[OpId{1}] == DeviceId{0});
  delta.reject();
  CHECK(delta.makespan() == ns(9));
  CHECK(delta.timeline().transfers.size() == 1);
  CHECK(delta.try_move(consumer, DeviceId{0}).complete());
  delta.accept();
  CHECK(delta.makespan() == ns(6));
  CHECK(delta.timeline().transfers.empty());
  CHECK(delta.timeline().ops[OpId{1}] == span_of(2, 6));
}

TEST_CASE("a change above the limit is refused and leaves no trace") {
  const SmallInstance instance{{{0, 2}, {0, 4}}, {{0, {1}, 3}}};
  DeltaSimulation delta{problem_of(instance, linked(2)), schedule_of(instance)};
  const OpId consumer[] = {OpId{1}};
  const DeltaResult result = delta.try_move(consumer, DeviceId{1}, ns(8));
  CHECK(result.outcome == Outcome::above);  // 2 + 3 + 4 = 9
  CHECK(result.makespan > ns(8));
  CHECK(result.makespan <= ns(9));
  CHECK(delta.makespan() == ns(6));
  CHECK(delta.schedule() == schedule_of(instance));
  CHECK(delta.try_move(consumer, DeviceId{1}, ns(9)) == DeltaResult{Outcome::complete, ns(9)});
}

TEST_CASE("what is no change of the schedule is refused, and leaves no trace") {
  const SmallInstance instance{{{0, 2}, {1, 4}, {0, 1}}, {{0, {1}, 3}}};
  DeltaSimulation delta{problem_of(instance, linked(2)), schedule_of(instance)};
  const Schedule before = delta.schedule();
  const OpId first[] = {OpId{0}}, beyond[] = {OpId{3}};
  CHECK(code_of([&] { delta.try_move(first, DeviceId{2}); }) == "unknown-device");
  CHECK(code_of([&] { delta.try_move(beyond, DeviceId{1}); }) == "unknown-op");
  CHECK(code_of([&] { delta.try_priority(OpId{0}, std::numeric_limits<double>::quiet_NaN()); }) == "not-a-number");
  CHECK(code_of([&] { delta.try_swap(OpId{0}, OpId{2}); }) == "order");  // the policy is fifo
  CHECK(code_of([&] { delta.try_move(OpId{0}, DeviceId{1}, std::nullopt); }) == "order");
  CHECK(delta.schedule() == before);
  Schedule schedule = before;
  schedule.policy = Policy::strict;
  schedule.order.assign(2, {});
  schedule.order[DeviceId{0}] = {OpId{0}, OpId{2}};
  schedule.order[DeviceId{1}] = {OpId{1}};
  DeltaSimulation strict{problem_of(instance, linked(2)), schedule};
  CHECK(code_of([&] { strict.try_swap(OpId{0}, OpId{1}); }) == "order");  // ops on two devices
  CHECK(code_of([&] { strict.try_move(OpId{0}, DeviceId{0}, OpId{0}); }) == "order");
  CHECK(code_of([&] { strict.try_move(OpId{0}, DeviceId{0}, OpId{1}); }) == "order");
  CHECK(strict.schedule() == schedule);
}

TEST_CASE("to try another change rejects the one in force") {
  const SmallInstance instance{{{0, 2}, {1, 4}}, {{0, {1}, 3}}};
  DeltaSimulation delta{problem_of(instance, linked(2)), schedule_of(instance)};
  const OpId first[] = {OpId{0}}, second[] = {OpId{1}};
  CHECK(delta.try_move(first, DeviceId{1}).complete());
  CHECK(delta.try_move(second, DeviceId{0}) == DeltaResult{Outcome::complete, ns(6)});  // 2 + 4, both on d0
  delta.accept();
  CHECK(delta.schedule().placement == Placement(2, DeviceId{0}));
}

TEST_CASE("two ops that change turns: the one that sends goes first") {
  // Op 0 takes 5 and sends nothing. Op 1 takes 1 and sends 3 bytes to op 2 on the other device, which takes 4.
  const SmallInstance instance{{{0, 5}, {0, 1}, {1, 4}}, {{1, {2}, 3}}};
  Schedule schedule = schedule_of(instance);
  schedule.policy = Policy::strict;
  schedule.order.assign(2, {});
  schedule.order[DeviceId{0}] = {OpId{0}, OpId{1}};
  schedule.order[DeviceId{1}] = {OpId{2}};
  DeltaSimulation delta{problem_of(instance, linked(2)), schedule};
  CHECK(delta.makespan() == ns(13));                                                 // 5 + 1 + 3 + 4
  CHECK(delta.try_swap(OpId{0}, OpId{1}) == DeltaResult{Outcome::complete, ns(8)});  // max(1 + 3 + 4, 1 + 5)
  delta.accept();
  CHECK(delta.schedule().order[DeviceId{0}] == std::vector{OpId{1}, OpId{0}});
  // The consumer before its producer would wait forever.
  CHECK(delta.try_move(OpId{2}, DeviceId{0}, std::nullopt) == DeltaResult{Outcome::deadlock, kLongestTime});
  delta.accept();  // no change to accept
  CHECK(delta.makespan() == ns(8));
  // The consumer after its producer: 1 + 4 + 5.
  CHECK(delta.try_move(OpId{2}, DeviceId{0}, OpId{1}) == DeltaResult{Outcome::complete, ns(10)});
  delta.reject();
  // Without a given place, the consumer goes between the two: 0 does not start before 1 ends.
  const OpId consumer[] = {OpId{2}};
  CHECK(delta.try_move(consumer, DeviceId{0}) == DeltaResult{Outcome::complete, ns(10)});
  CHECK(delta.schedule().order[DeviceId{0}] == std::vector{OpId{1}, OpId{2}, OpId{0}});
}

TEST_CASE("random changes, accepted and rejected, give what full simulations give") {
  Counts counts;
  for (std::uint64_t seed = 0; seed < test::rounds(1'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(31, seed);
    RandomProblemOptions options;
    options.most_ops = seed % 10 == 0 ? 300 : 60;
    options.most_devices = seed % 10 == 5 ? 40 : 6;
    options.closed_links = seed % 2 == 0;
    options.zero_times = seed % 4 < 2 ? 0.0 : 0.2;
    const Problem problem = random_problem(random, options);
    Schedule schedule = random_schedule(random, problem);
    if (schedule.policy == Policy::priority && random.chance(0.7)) schedule.policy = Policy::fifo;
    walk_at_random(random, problem, schedule, 100, counts);
  }
  CHECK(counts.tried == test::rounds(100'000U));
  CHECK(counts.accepted > test::rounds(20'000U));
  CHECK(counts.above > test::rounds(5'000U));
  CHECK(counts.deadlocks > test::rounds(1'000U));
}

TEST_CASE("random changes on fair links, where each is a full simulation, give what simulate() gives") {
  Counts counts;
  for (std::uint64_t seed = 0; seed < test::rounds(200U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(32, seed);
    RandomProblemOptions options;
    options.most_ops = 40;
    options.fair_links = seed % 2 == 0 ? 0.5 : 1;
    const Problem problem = random_problem(random, options);
    walk_at_random(random, problem, random_schedule(random, problem), 40, counts);
  }
  CHECK(counts.tried == test::rounds(8'000U));
  CHECK(counts.accepted > test::rounds(1'500U));
  CHECK(counts.above > test::rounds(300U));
  CHECK(counts.deadlocks > test::rounds(50U));
}

TEST_CASE("random changes with collectives, in strict order and with links by priority, give what simulate() gives") {
  Counts counts;
  for (std::uint64_t seed = 0; seed < test::rounds(300U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(33, seed);
    RandomProblemOptions options;
    options.most_ops = 40;
    options.collectives = seed % 3 == 0 ? 0 : 4;
    const Problem problem = random_problem(random, options);
    Schedule schedule = random_schedule(random, problem);
    if (seed % 2 == 0) schedule.policy = Policy::strict;
    schedule.urgent_links = schedule.policy == Policy::strict && !schedule.priority.empty() && seed % 4 == 0;
    walk_at_random(random, problem, schedule, 40, counts);
  }
  CHECK(counts.tried == test::rounds(12'000U));
  CHECK(counts.accepted > test::rounds(1'500U));
  CHECK(counts.above > test::rounds(300U));
  CHECK(counts.deadlocks > test::rounds(200U));
}

}  // namespace
}  // namespace trainyard::test
