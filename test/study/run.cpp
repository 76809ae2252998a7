#include "trainyard/study/run.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "study/chain.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/solve/integer_program.hpp"

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a run has the schedule's timeline, its summary and who made it") {
  const Problem problem = chain();
  const Run run = run_placer(problem, find_placer("single"), {.seed = 7});
  CHECK(run.placer == "single");
  CHECK(run.schedule.seed == 7);
  CHECK(run.timeline == simulate(problem, run.schedule));
  CHECK(run.summary.makespan == 10_ns);
  CHECK(run.value() == 10_ns);
  CHECK(run.optimal());  // the chain's 10 ns are its own bound
  CHECK(run.search_seconds.has_value());
}

TEST_CASE("a schedule from elsewhere runs under the bound that is given, or else under the best") {
  const Problem problem = chain();
  CHECK(run_schedule(problem, placed({0, 1})).bound().value == 10_ns);
  const Run given = run_schedule(problem, placed({0, 1}), LowerBound{"guess", 5_ns});
  CHECK(given.bound() == LowerBound{"guess", 5_ns});
  CHECK(given.summary.gap == doctest::Approx(0.75));  // (20 - 5) / 20
  CHECK_FALSE(given.search_seconds);
}

TEST_CASE("a run that does not fit is below no bound of its own") {
  // gpu0 takes 10 ns and is too small; all that fits takes 20 on gpu1.
  const Problem problem = half_large_chain();
  const Run small = run_schedule(problem, placed({0, 0}), LowerBound{"memory-work", 20_ns});
  CHECK_FALSE(small.summary.fits);
  CHECK(small.value() == 10_ns);
  CHECK(small.bound().value == 10_ns);  // a on gpu0 and b: no schedule at all takes less
  CHECK_FALSE(small.optimal());
  CHECK(run_schedule(problem, placed({1, 1}), LowerBound{"memory-work", 20_ns}).optimal());
}

TEST_CASE("nor is the largest load of a placement that does not fit") {
  // a takes 4 ns on gpu0, which is too small for it, and 8 where it fits.
  GraphBuilder builder{"one"};
  builder.add({.name = "a", .parameter_bytes = Bytes{100}, .times = {{"gpu0", 4_ns}, {"gpu1", 8_ns}}});
  const Problem problem{std::move(builder).build(), half_large_chain().cluster()};
  const Placer alone{
      .name = "alone", .summary = "", .source = "own", .place = [](const auto&, const auto&) { return placed({0}); }};
  const Run run = run_placer(problem, alone, {.objective = Objective::max_load});
  CHECK(max_load_bound(problem).value == (has_cbc() ? 8_ns : 4_ns));  // without CBC nobody adds memories up
  CHECK_FALSE(run.summary.fits);
  CHECK(run.value() == 4_ns);
  CHECK(run.bound().value == 4_ns);
  CHECK_FALSE(run.optimal());
}

TEST_CASE("under the objective max-load a run is judged by its busiest device") {
  const Placer apart{.name = "apart", .summary = "", .source = "own", .place = [](const auto&, const auto&) {
                       return placed({0, 1});
                     }};
  const Run run = run_placer(chain(), apart, {.objective = Objective::max_load});
  CHECK(run.value() == 16_ns);  // gpu1: b's 6, and the 10 that t takes to arrive
  // Some device runs b, for 6; with CBC the best block is known as well: b alone has load 6 + 10, with a 4 + 6.
  CHECK(run.bound().value >= 6_ns);
  CHECK(run.bound().value <= 10_ns);
  CHECK_FALSE(run.optimal());
}

TEST_CASE("completions are the ends of the models' last ops, and their sum") {
  const Problem problem = two_models();
  const Completions all = completions(problem, simulate(problem, placed({0, 0, 1})));
  REQUIRE(all.models.size() == 2);
  CHECK(all.models[0].first == "long");
  CHECK(all.models[0].second == 10_ns);
  CHECK(all.models[1].second == 3_ns);
  CHECK(all.total == 13_ns);
  CHECK(all.bound == 13_ns);  // the chains alone: 3 + 10
}
