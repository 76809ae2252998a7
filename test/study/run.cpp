#include "trainyard/study/run.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "study/chain.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/solve/integer_program.hpp"
#include "trainyard/throughput/from_problem.hpp"

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
  CHECK(run.optimal());  // the chain's critical path is 10 ns
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
  // gpu0 takes 10 ns and is too small. Each schedule that fits takes 20 ns, on gpu1.
  const Problem problem = half_large_chain();
  const Run small = run_schedule(problem, placed({0, 0}), LowerBound{"memory-work", 20_ns});
  CHECK_FALSE(small.summary.fits);
  CHECK(small.value() == 10_ns);
  CHECK(small.bound().value == 10_ns);  // a on gpu0, then b: no schedule at all takes less
  CHECK_FALSE(small.optimal());
  CHECK(run_schedule(problem, placed({1, 1}), LowerBound{"memory-work", 20_ns}).optimal());
}

TEST_CASE("nor is the largest load of a placement that does not fit") {
  // Op a takes 4 ns on gpu0, which is too small for it, and 8 ns on gpu1, where it fits.
  GraphBuilder builder{"one"};
  builder.add({.name = "a", .parameter_bytes = Bytes{100}, .times = {{"gpu0", 4_ns}, {"gpu1", 8_ns}}});
  const Problem problem{std::move(builder).build(), half_large_chain().cluster()};
  const Placer alone{
      .name = "alone", .summary = "", .source = "own", .place = [](const auto&, const auto&) { return placed({0}); }};
  const Run run = run_placer(problem, alone, {.objective = Objective::max_load});
  CHECK(max_load_bound(problem).value == (has_cbc() ? 8_ns : 4_ns));  // without CBC, no bound counts memory
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
  CHECK(run.value() == 16_ns);  // gpu1: b's 6, and 10 to receive t
  // Some device runs b: 6. With CBC, the block bound also counts transfers: b alone has load 6 + 10, with a 4 + 6.
  CHECK(run.bound().value >= 6_ns);
  CHECK(run.bound().value <= 10_ns);
  CHECK_FALSE(run.optimal());
}

TEST_CASE("the bound of the largest load holds where backward ops are not with their forward op") {
  // A layer with a forward op of 10 and three backward ops of 10, on four devices: one op each, and nothing is sent.
  GraphBuilder builder{"layer"};
  builder.add({.name = "f", .layer = "l", .times = {{"gpu", 10_ns}}, .outputs = {{"y", Bytes{0}}}});
  for (const char* name : {"b0", "b1", "b2"})
    builder.add({.name = name, .phase = Phase::backward, .layer = "l", .times = {{"gpu", 10_ns}}, .inputs = {"y"}});
  const Problem layer{std::move(builder).build(), make_cluster(linked(4))};
  CHECK(max_load_bound(layer).value == 10_ns);
  CHECK(max_load(layer, placed({0, 1, 2, 3}).placement) == 10_ns);
  // Random graphs in layers.
  Random random{33};
  for (int round = 0; round < test::rounds(100); ++round) {
    CAPTURE(round);
    GraphBuilder layers{"layers"};
    const std::int64_t count = random.between(1, 4);
    const auto time = [&] { return std::vector<GivenTime>{{"gpu", Nanoseconds{random.between(0, 9)}}}; };
    for (std::int64_t l = 0; l < count; ++l) {
      const std::string name = std::to_string(l), before = std::to_string(l - 1);
      layers.add({.name = name,
                  .layer = name,
                  .times = time(),
                  .inputs = l > 0 ? std::vector{"y" + before} : std::vector<std::string>{},
                  .outputs = {{"y" + name, Bytes{random.between(0, 3)}}}});
      for (std::int64_t b = random.between(0, 2); b-- > 0;)
        layers.add({.name = name + "b" + std::to_string(b),
                    .phase = Phase::backward,
                    .layer = name,
                    .times = time(),
                    .inputs = {"y" + name}});
    }
    const Problem problem{std::move(layers).build(), make_cluster(linked(3))};
    const Nanoseconds bound = max_load_bound(problem).value;
    for (int trial = 0; trial < 50; ++trial) {
      Placement placement;
      for (std::size_t i = 0; i < problem.op_count(); ++i) placement.push_back(DeviceId{random.below(3)});
      REQUIRE(bound <= max_load(problem, placement));
    }
  }
}

TEST_CASE("completions are the ends of the models' last ops, and their sum") {
  const Problem problem = two_models();
  const Completions all = completions(problem, simulate(problem, placed({0, 0, 1})));
  REQUIRE(all.models.size() == 2);
  CHECK(all.models[0].first == "long");
  CHECK(all.models[0].second == 10_ns);
  CHECK(all.models[1].second == 3_ns);
  CHECK(all.total == 13_ns);
  CHECK(all.bound == 13_ns);  // each chain alone on the machine: 3 + 10
}
