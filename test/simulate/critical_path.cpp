#include "trainyard/simulate/critical_path.hpp"

#include <doctest/doctest.h>

#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/simulate/model/run_events.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

PathStep op_step(std::size_t op, PathStep::Cause cause) { return {OpId{op}, 0, cause}; }
PathStep transfer_step(std::size_t transfer, PathStep::Cause cause) { return {OpId::none(), transfer, cause}; }

TEST_CASE("the critical path of five ops on two devices goes through a busy link") {
  const SmallInstance instance{{{0, 2}, {0, 3}, {1, 4}, {1, 2}, {0, 1}},
                               {{0, {1}, 5}, {0, {2}, 1}, {1, {3}, 2}, {2, {4}, 3}, {3, {4}, 1}}};
  const Problem problem = problem_of(instance, linked(2));
  const Schedule schedule = schedule_of(instance);
  // Op 0 (2), its byte to d1 (1), op 2 (4), its tensor back (3), the link's next tensor (1), op 4 (1): 12.
  using Cause = PathStep::Cause;
  const std::vector<PathStep> expected{op_step(0, Cause::start),          transfer_step(0, Cause::data),
                                       op_step(2, Cause::data),           transfer_step(2, Cause::data),
                                       transfer_step(3, Cause::resource), op_step(4, Cause::data)};
  CHECK(critical_path(problem, schedule, simulate(problem, schedule)) == expected);
}

TEST_CASE("a timeline of another problem has no critical path in this one") {
  const SmallInstance instance{{{0, 2}, {1, 5}}, {{0, {1}, 1}}}, other{{{0, 2}}, {}};
  const Problem problem = problem_of(instance, linked(2)), single = problem_of(other, linked(2));
  CHECK_THROWS_WITH_AS(critical_path(problem, schedule_of(instance), Timeline{}),
                       "the timeline has 0 ops, but the problem of graph 'small' has 2", InputError);
  CHECK_THROWS_WITH_AS(critical_path(problem, schedule_of(other), simulate(single, schedule_of(other))),
                       "the placement has 1 op, but the problem of graph 'small' has 2", InputError);
}

/// Holds back op 1 until 3, when op 2 is ready too.
struct BothTogether {
  bool before(const Waiting&, const Waiting&) const { return false; }
  bool holds_back(const Waiting& first) const { return first.op == OpId{1} && first.run.now() < Nanoseconds{3}; }
};

TEST_CASE("an op that its rule held back, with nothing before it on its device, begins the path") {
  // Op 0 takes 2 on d0, its byte 1 to d1. There op 1, ready at 0, is held back until op 2 is ready: it ends at 3 + 5.
  const SmallInstance instance{{{0, 2}, {1, 5}, {1, 1}}, {{0, {2}, 1}}};
  const Problem problem = problem_of(instance, linked(2));
  Schedule schedule = schedule_of(instance);
  schedule.rule = own_rule("both-together", BothTogether{});
  const Timeline timeline = simulate(problem, schedule);
  REQUIRE(timeline.ops[OpId{1}] == span_of(3, 8));
  CHECK(critical_path(problem, schedule, timeline) ==
        std::vector<PathStep>{op_step(1, PathStep::Cause::start), op_step(2, PathStep::Cause::resource)});
}

TEST_CASE("the steps of a critical path and the gaps between them add up to the makespan") {
  std::size_t resources = 0, with_gap = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(3000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(23, seed);
    RandomProblemOptions options;
    options.most_ops = 25;
    const Problem problem = random_problem(random, options);
    const Schedule schedule = random_schedule(random, problem);
    const Timeline timeline = simulate(problem, schedule);
    Nanoseconds sum{0}, last_end{0};
    PathStep before{};
    for (const PathStep& step : critical_path(problem, schedule, timeline)) {
      const bool is_op = !step.op.is_none();
      const Nanoseconds start = is_op ? timeline.ops[step.op].start : timeline.transfers[step.transfer].start;
      const Nanoseconds end = is_op ? timeline.ops[step.op].end : timeline.transfers[step.transfer].end;
      const Nanoseconds gap = start - last_end;
      if (step.cause != PathStep::Cause::resource) {
        REQUIRE(gap == Nanoseconds{0});
      } else if (is_op) {
        REQUIRE(schedule.placement[before.op] == schedule.placement[step.op]);
        REQUIRE(gap == problem.cluster().device(schedule.placement[step.op]).gap);
      } else {
        REQUIRE(before.op.is_none());
        bool shared = false;
        const auto channels_of = [&](std::size_t transfer) {
          return problem.cluster().route(timeline.transfers[transfer].from, timeline.transfers[transfer].to).channels;
        };
        for (const ChannelId mine : channels_of(step.transfer))
          for (const ChannelId other : channels_of(before.transfer))
            shared = shared || (mine == other && problem.cluster().channel(mine).gap == gap);
        REQUIRE(shared);
      }
      resources += step.cause == PathStep::Cause::resource;
      with_gap += gap > Nanoseconds{0};
      sum += gap + (end - start);
      last_end = end;
      before = step;
    }
    REQUIRE(sum == timeline.makespan);
  }
  CHECK(resources > 1000);
  CHECK(with_gap > 100);
}

}  // namespace
}  // namespace trainyard::test
