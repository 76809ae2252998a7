#include "trainyard/simulate/model/run_events.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/simulate/batch.hpp"
#include "trainyard/simulate/delta.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/simulate/steps.hpp"

namespace trainyard::test {
namespace {

// --- user-defined rules ---

struct FreesMost {
  bool before(const Waiting& a, const Waiting& b) const { return a.run.frees(a.op) > b.run.frees(b.op); }
};

/// Runs ops with ids from `starved` on only if no other op waits.
struct Starve {
  OpId starved;

  bool before(const Waiting& a, const Waiting& b) const { return a.op < starved && b.op >= starved; }
};

/// Alternates between `count` ops with ids below `second` and as many of the others.
struct SwitchEvery {
  std::size_t count;
  OpId second;

  bool has_turn(const Waiting& task) const {
    return (task.op >= second) == (task.run.started(task.device) / count % 2 == 1);
  }
  bool before(const Waiting& a, const Waiting& b) const { return has_turn(a) && !has_turn(b); }
};

/// Holds back every other op until op 0 has ended.
struct AfterFirst {
  bool before(const Waiting&, const Waiting&) const { return false; }
  bool holds_back(const Waiting& first) const { return first.op != OpId{0} && !first.run.has_ended(OpId{0}); }
};

struct SmallestTensorFirst {
  bool before(const Waiting&, const Waiting&) const { return false; }
  double urgency(const WaitingTransfer& transfer) const {
    return -static_cast<double>(transfer.run.problem().graph().bytes(transfer.tensor).count);
  }
};

// --- the concept ---

struct Smallest {
  bool before(const Waiting&, const Waiting&) const;
};
struct Nothing {};
struct HoldsBackByOp {
  bool before(const Waiting&, const Waiting&) const;
  bool holds_back(OpId) const;
};
static_assert(DispatchRule<Smallest> && !HoldsBack<Smallest> && !RanksTransfers<Smallest>);
static_assert(DispatchRule<Fifo> && DispatchRule<Priority> && DispatchRule<Strict>);
static_assert(RanksTransfers<Priority> && HoldsBack<Strict> && !RanksTransfers<Strict>);
static_assert(DispatchRule<AfterFirst> && HoldsBack<AfterFirst> && RanksTransfers<SmallestTensorFirst>);
static_assert(!DispatchRule<Nothing>);
static_assert(!DispatchRule<HoldsBackByOp>);  // its holds_back() would never be called

/// Start times of the ops, by id.
std::vector<std::int64_t> starts(const Timeline& timeline) {
  std::vector<std::int64_t> result;
  for (const Span& span : timeline.ops) result.push_back(span.start.count);
  return result;
}
using Starts = std::vector<std::int64_t>;

TEST_CASE("most memory freed first holds 22 bytes where fifo holds 26") {
  // Op 0 makes 4 bytes for op 1 and 10 for op 2, each of which makes 8 for op 3.
  const SmallInstance instance{{{0, 1}, {0, 1}, {0, 1}, {0, 1}}, {{0, {1}, 4}, {0, {2}, 10}, {1, {3}, 8}, {2, {3}, 8}}};
  const Problem problem = problem_of(instance, linked(1));
  const Placement placement = schedule_of(instance).placement;
  const Timeline fifo = run_events(problem, placement, Fifo{});
  CHECK(starts(fifo) == Starts{0, 1, 2, 3});
  CHECK(fifo.devices[DeviceId{0}].peak == Bytes{26});  // during op 2: 10 + 8 + 8
  const Timeline freeing = run_events(problem, placement, FreesMost{});
  CHECK(starts(freeing) == Starts{0, 2, 1, 3});
  CHECK(freeing.devices[DeviceId{0}].peak == Bytes{22});  // during op 2: 4 + 10 + 8, and during op 1: 4 + 8 + 8
}

TEST_CASE("a tensor is freed by its last reader, once it has left for other devices") {
  // At 1, ops 1 to 4 wait on d0. Op 1 reads 10 bytes that also leave for d1, until 11. Ops 2 and 3 both read 6 bytes.
  // Op 4 reads 5.
  const SmallInstance instance{{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 1}},
                               {{0, {1, 5}, 10}, {0, {2, 3}, 6}, {0, {4}, 5}}};
  const Problem problem = problem_of(instance, linked(2));
  // Op 4 goes first, since it frees 5 bytes. Ops 1 and 2 free nothing and go by id.
  CHECK(starts(run_events(problem, schedule_of(instance).placement, FreesMost{})) == Starts{0, 2, 3, 4, 1, 11});
}

TEST_CASE("a starved model runs where the other has nothing to run") {
  // Ops 0 and 1 are a chain, ops 2 and 3 the starved model. All take 2.
  const SmallInstance instance{{{0, 2}, {0, 2}, {0, 2}, {0, 2}}, {{0, {1}, 1}}};
  const Problem problem = problem_of(instance, linked(1));
  const Placement placement = schedule_of(instance).placement;
  CHECK(starts(run_events(problem, placement, Fifo{})) == Starts{0, 6, 2, 4});  // 1 is ready at 2, the others at 0
  CHECK(starts(run_events(problem, placement, Starve{OpId{2}})) == Starts{0, 2, 4, 6});
}

TEST_CASE("a device that switches every two ops runs 0 1, 4 5, 2 3, and the rest of the second model") {
  const SmallInstance instance{{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}, {}};
  const Timeline timeline =
      run_events(problem_of(instance, linked(1)), schedule_of(instance).placement, SwitchEvery{2, OpId{4}});
  CHECK(starts(timeline) == Starts{0, 1, 4, 5, 2, 3, 6, 7, 8});
}

/// Holds back the ops with ids from `starved` on until all others have ended.
struct StarveEverywhere {
  OpId starved;
  bool before(const Waiting& a, const Waiting& b) const { return a.op < starved && b.op >= starved; }
  bool holds_back(const Waiting& first) const {
    if (first.op < starved) return false;
    for (const OpId op : first.run.problem().ops())
      if (op < starved && !first.run.has_ended(op)) return true;
    return false;
  }
};

TEST_CASE("a starved model waits on each device until the other has ended on all") {
  // Ops 0 on d0 and 1 on d1 are a chain: 0 takes 2, its byte 1, and 1 takes 4, to 7. Ops 2 and 3 are the starved model.
  const SmallInstance instance{{{0, 2}, {1, 4}, {0, 2}, {1, 2}}, {{0, {1}, 1}}};
  const Problem problem = problem_of(instance, linked(2));
  CHECK(starts(run_events(problem, schedule_of(instance).placement, StarveEverywhere{OpId{2}})) == Starts{0, 3, 7, 7});
}

TEST_CASE("a device idles where the rule holds back what waits, until it lets it run as something happens anywhere") {
  // Op 1 waits from 0. Op 2 ends at 3 on d1, its byte arrives at 4, and op 0 runs from 4 to 6.
  const SmallInstance instance{{{0, 2}, {0, 1}, {1, 3}}, {{2, {0}, 1}}};
  const Problem problem = problem_of(instance, linked(2));
  Placement placement = schedule_of(instance).placement;
  // Ops wait in fifo order: op 1 is ready before op 0, so it is still first, and held back, at 4.
  CHECK_THROWS_WITH_AS(run_events(problem, placement, AfterFirst{}),
                       "the rule 'own' never lets op '1' run on device 'd0'", InputError);
  struct Never {
    bool before(const Waiting&, const Waiting&) const { return false; }
    bool holds_back(const Waiting& first) const { return first.op == OpId{1}; }
  };
  struct FirstBeforeSecond {
    bool before(const Waiting&, const Waiting&) const { return false; }
    bool holds_back(const Waiting& first) const { return first.op == OpId{1} && !first.run.has_ended(OpId{0}); }
  };
  placement[OpId{0}] = DeviceId{1};  // op 0 runs from 3 to 5 there
  CHECK(starts(run_events(problem, placement, FirstBeforeSecond{})) == Starts{3, 5, 0});
  CHECK_THROWS_WITH_AS(run_events(problem, placement, Never{}, "never"),
                       "the rule 'never' never lets op '1' run on device 'd0'", InputError);
  const SmallInstance woken{{{1, 2}, {0, 1}, {0, 1}}, {{0, {2}, 1}}};
  // Op 1 waits until op 0 ends on d1 at 2. Op 2 is ready at 2 + 1.
  CHECK(starts(run_events(problem_of(woken, linked(2)), schedule_of(woken).placement, AfterFirst{})) ==
        Starts{0, 2, 3});
}

TEST_CASE("a rule that own_rule() did not make is refused") {
  const SmallInstance instance{{{0, 1}}, {}};
  const Problem problem = problem_of(instance, linked(1));
  Schedule schedule = schedule_of(instance);
  schedule.rule = OwnRule{"empty", nullptr};
  CHECK_THROWS_WITH_AS(simulate(problem, schedule), "the rule 'empty' has no function that runs it", InputError);
  CHECK_THROWS_WITH_AS(Simulation{problem}.makespan(schedule), "the rule 'empty' has no function that runs it",
                       InputError);
}

TEST_CASE("a lambda orders ops as a rule does") {
  const SmallInstance instance{{{0, 2}, {0, 1}, {0, 3}}, {}};
  const auto last_first = [](const Waiting& a, const Waiting& b) { return a.op > b.op; };
  Schedule schedule = schedule_of(instance);
  schedule.rule = own_rule("last-first", last_first);
  CHECK(starts(simulate(problem_of(instance, linked(1)), schedule)) == Starts{4, 3, 0});
}

TEST_CASE("an urgency that is not a number is refused by the rule's name") {
  struct NoNumber {
    bool before(const Waiting&, const Waiting&) const { return false; }
    double urgency(const WaitingTransfer&) const { return std::numeric_limits<double>::quiet_NaN(); }
  };
  const SmallInstance instance{{{0, 1}, {1, 1}}, {{0, {1}, 5}}};
  CHECK_THROWS_WITH_AS(run_events(problem_of(instance, linked(2)), schedule_of(instance).placement, NoNumber{}, "mine"),
                       "the urgency that the rule 'mine' gives tensor '0:0' is not a number", InputError);
}

TEST_CASE("the rules of a schedule hold what they are made of, and fit the problem") {
  const SmallInstance instance{{{0, 2}, {0, 1}, {0, 3}}, {}};
  const Problem problem = problem_of(instance, linked(1));
  Schedule schedule = schedule_of(instance);
  {
    const IdMap<OpId, double> priority{std::vector{0.0, 1.0, 2.0}};
    schedule.rule = own_rule("by-priority", Priority{priority});
  }
  CHECK(starts(simulate(problem, schedule)) == Starts{4, 3, 0});
  CHECK(starts(run_events(problem, schedule.placement, Priority{{}})) == Starts{0, 2, 3});  // all priorities are 0
  CHECK_THROWS_AS((Strict{problem, schedule}), InputError);                                 // the schedule has no order
}

TEST_CASE("the urgency of transfers orders links, and without one they are fifo") {
  // Two tensors of op 0, of 5 and 2 bytes, cross one link from 1 on.
  const SmallInstance instance{{{0, 1}, {1, 1}, {1, 1}}, {{0, {1}, 5}, {0, {2}, 2}}};
  const Problem problem = problem_of(instance, linked(2));
  const Placement placement = schedule_of(instance).placement;
  CHECK(starts(run_events(problem, placement, Fifo{})) == Starts{0, 6, 8});                 // 1 + 5, 1 + 5 + 2
  CHECK(starts(run_events(problem, placement, SmallestTensorFirst{})) == Starts{0, 8, 3});  // 1 + 2, 1 + 2 + 5
}

// --- against the schedule's own policies ---

/// The schedule policies as plain rules: the next op is searched for at each turn.
struct Searched {
  bool before(const Waiting&, const Waiting&) const { return false; }
};
struct SearchedPriority {
  const IdMap<OpId, double>* priority;

  bool before(const Waiting& a, const Waiting& b) const { return Priority{*priority}.before(a, b); }
  double urgency(const WaitingTransfer& transfer) const { return Priority{*priority}.urgency(transfer); }
};

TEST_CASE("fifo, priority and strict as rules give simulate's whole timelines, in a heap or searched") {
  std::size_t fair = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(3'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(21, seed);
    RandomProblemOptions options;
    options.most_ops = seed % 10 == 0 ? 100 : 20;
    options.closed_links = seed % 3 == 0;
    options.fair_links = seed % 3 == 1 ? 0.5 : 0;
    const Problem problem = random_problem(random, options);
    fair += problem.cluster().has_fair_channels();
    Schedule schedule = random_schedule(random, problem);
    const Placement& placement = schedule.placement;
    Simulation simulation{problem};
    schedule.policy = Policy::fifo;
    const Timeline fifo = simulation.timeline(schedule);
    REQUIRE(run_events(problem, placement, Fifo{}) == fifo);
    REQUIRE(run_events(problem, placement, Searched{}) == fifo);
    schedule.policy = Policy::strict;
    REQUIRE(run_events(problem, placement, Strict{problem, schedule}) == simulation.timeline(schedule));
    if (schedule.priority.empty()) continue;
    schedule.policy = Policy::priority;
    const Timeline urgent = simulation.timeline(schedule);
    REQUIRE(run_events(problem, placement, Priority{schedule.priority}) == urgent);
    REQUIRE(run_events(problem, placement, SearchedPriority{&schedule.priority}) == urgent);
  }
  CHECK(fair > test::rounds(500U));
}

TEST_CASE("rules give the same run each time, on any number of threads") {
  for (std::uint64_t seed = 0; seed < test::rounds(200U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(22, seed);
    const Problem problem = random_problem(random);
    Schedule schedule = random_schedule(random, problem);
    const Timeline expected = run_events(problem, schedule.placement, FreesMost{});
    schedule.rule = own_rule("frees-most", FreesMost{});
    CHECK(simulate(problem, schedule) == expected);
    CHECK(Batch{problem, 3}.makespans(std::vector<Schedule>(20, schedule)) ==
          std::vector<Nanoseconds>(20, expected.makespan));
  }
}

TEST_CASE("what knows the policies alone refuses a rule by its name") {
  const SmallInstance instance{{{0, 1}, {0, 1}}, {{0, {1}, 1}}};
  const Problem problem = problem_of(instance, linked(1));
  Schedule schedule = schedule_of(instance);
  schedule.rule = own_rule("frees-most", FreesMost{});
  CHECK_THROWS_WITH_AS((DeltaSimulation{problem, schedule}),
                       "a simulation of changes (DeltaSimulation) supports the policies fifo, priority and strict, but "
                       "not the rule 'frees-most'",
                       InputError);
  CHECK_THROWS_AS(simulate_steps(problem, schedule, 2), InputError);
  CHECK(simulate_steps(problem, schedule, 1).timeline.makespan == Nanoseconds{2});  // 1 + 1
}

}  // namespace
}  // namespace trainyard::test
