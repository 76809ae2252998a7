#include "trainyard/place/auto/auto_load.hpp"

#include <doctest/doctest.h>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/throughput/from_problem.hpp"

namespace trainyard {
namespace {

TEST_CASE("auto for the largest load: the chain of 3, 6 and 3 with 0.5 an edge on two devices has 7, not 9.5") {
  // One device has {3, 3}, the other one {6}, with 0.5 in and 0.5 out each: 7. The times here are doubled.
  const Problem problem = test::make_problem({{{6, 6}, {12, 12}, {6, 6}}, {{0, 1, 1}, {1, 2, 1}}});
  const Schedule schedule = auto_place(problem, auto_members(), {.objective = Objective::max_load});
  CHECK(max_load(problem, schedule.placement) == Nanoseconds{14});
  REQUIRE_NOTHROW(check_schedule(problem, schedule));
}

TEST_CASE("auto for the largest load is no worse than any placer, and the same on any number of threads") {
  Random random{21};
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 25});
    PlaceOptions options{.seed = 3, .objective = Objective::max_load, .budget = {.evaluations = 20'000}, .threads = 1};
    const Schedule schedule = auto_place(problem, auto_members(), options);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    const auto value = [&](const Schedule& each) {
      return Outcome{test::outcome_of(problem, each).excess, max_load(problem, each.placement)};
    };
    for (const Placer& placer : auto_members()) {
      if (!is_asked(placer, problem, Objective::max_load)) continue;
      CAPTURE(placer.name);
      try {
        const Schedule member = placer.place(problem, {.seed = 3});
        if (member.rewrites.empty()) CHECK(value(schedule) <= value(member));
      } catch (const InputError&) {    // has no answer
      } catch (const MissingError&) {  // needs what this build lacks
      }
    }
    options.threads = 3;
    CHECK(auto_place(problem, auto_members(), options) == schedule);
  }
}

}  // namespace
}  // namespace trainyard
