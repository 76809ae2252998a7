#include "trainyard/place/flexflow/placement_chain.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/flexflow/flexflow.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// A fork: t0 feeds t1 and t2, with transfers of 2.
Problem fork_problem() { return test::make_problem({{{3, 4}, {5, 4}, {6, 3}}, {{0, 1, 2}, {0, 2, 2}}}); }

}  // namespace

TEST_CASE("with beta 0 every proposal that moves something is taken") {
  const Problem problem = fork_problem();
  PlacementChain chain{problem, Placement(3, DeviceId{0}), Random{1}};
  chain.set_beta(0);
  std::uint64_t moves = 0;
  for (int i = 0; i < 1'000; ++i) {
    const Placement before = chain.placement();
    chain.step();
    moves += chain.placement() != before;
  }
  CHECK(chain.taken() == moves);
  // Half of the proposals are the op's current device.
  CHECK(moves > 420);
  CHECK(moves < 580);
  CHECK(chain.evaluations() == 1'000);
}

TEST_CASE("a greedy chain never gets worse, and ends in the best of the fork") {
  const Problem problem = fork_problem();
  PlacementChain chain{problem, Placement(3, DeviceId{0}), Random{2}};
  chain.set_beta(PlacementChain::kGreedy);
  Nanoseconds last = chain.makespan();
  for (int i = 0; i < 200; ++i) {
    chain.step();
    CHECK(chain.makespan() <= last);
    last = chain.makespan();
  }
  // t0 on p0 [0, 3], its transfer [3, 5], t1 on p0 [3, 8], t2 on p1 [5, 8].
  CHECK(chain.best_outcome().makespan == Nanoseconds{8});
}

TEST_CASE("states are visited in proportion to exp(-beta c / scale)") {
  const Problem problem = fork_problem();
  std::array<double, 8> expected{};
  double sum = 0;
  for (std::size_t state = 0; state < 8; ++state) {
    Placement placement(3);
    for (std::size_t i = 0; i < 3; ++i) placement[OpId{i}] = DeviceId{state >> i & 1};
    const auto cost = static_cast<double>(simulated_makespan(problem, Schedule{.placement = placement}).count);
    sum += expected[state] = std::exp(-2 * cost / 8);
  }
  PlacementChain chain{problem, Placement(3, DeviceId{0}), Random{3}};
  chain.set_beta(2);
  chain.fix_scale(Nanoseconds{8});
  // Every 20th state is a sample, so that samples are nearly independent.
  constexpr int kSamples = 20'000;
  std::array<double, 8> seen{};
  for (int i = 0; i < kSamples; ++i) {
    for (int j = 0; j < 20; ++j) chain.step();
    std::size_t state = 0;
    for (std::size_t op = 0; op < 3; ++op) state |= chain.placement()[OpId{op}].index() << op;
    ++seen[state];
  }
  double chi_square = 0;
  for (std::size_t state = 0; state < 8; ++state) {
    const double mean = kSamples * expected[state] / sum;
    chi_square += (seen[state] - mean) * (seen[state] - mean) / mean;
  }
  CHECK(chi_square < 24.3);  // 7 degrees of freedom: 1 in 1,000 is above
}

TEST_CASE("the chain's costs are those of a full simulation, and moves keep groups and kinds") {
  Random random{4};
  for (int round = 0; round < test::rounds(60); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 20});
    const Placement start = find_placer("single").place(problem, {}).placement;
    PlacementChain chain{problem, start, Random{static_cast<std::uint64_t>(round)}};
    chain.set_propagation(round % 2 == 0);
    chain.set_beta(10);
    for (int i = 0; i < 50; ++i) {
      chain.step();
      const Schedule schedule{.placement = chain.placement()};
      REQUIRE_NOTHROW(check_schedule(problem, schedule));
      CHECK(test::outcome_of(problem, schedule) == chain.outcome());
    }
    const Schedule best{.placement = chain.best()};
    CHECK(test::outcome_of(problem, best) == chain.best_outcome());
    CHECK(chain.best_outcome() <= test::outcome_of(problem, Schedule{.placement = start}));
  }
}

TEST_CASE("calibration gives the beta with which 3 of 10 worse proposals are taken") {
  // One op of 10 or 15: the only worse proposal costs 50 % more. exp(-beta / 2) = 0.3 at beta = 2.408.
  const Problem problem = test::make_problem({{{10, 15}}, {}});
  PlacementChain chain{problem, Placement(1, DeviceId{0}), Random{5}};
  CHECK(chain.calibrated_beta(50) == doctest::Approx(2.408).epsilon(0.001));
  // If the op takes the same time on all devices, no proposal is worse.
  const Problem flat = test::make_problem({{{10, 10}}, {}});
  PlacementChain none{flat, Placement(1, DeviceId{0}), Random{6}};
  CHECK(none.calibrated_beta(50) == PlacementChain::kGreedy);
}

TEST_CASE("FlexFlow repeats, uses its budget, and is no worse than where it starts") {
  const Model network = make_network("lenet:batch=64");
  const Problem problem{training_graph(network, {}), make_cluster(preset_cluster("4xV100"))};
  const auto run = [&](const std::string& start, std::uint64_t evaluations, const std::string& splits = "yes") {
    return find_placer("flexflow")
        .place(problem, {.parameters = {{"start", start}, {"splits", splits}}, .budget = {.evaluations = evaluations}});
  };
  const auto makespan = [&](const Schedule& schedule) {
    const Problem whole = scheduled_problem(problem, schedule);
    REQUIRE_NOTHROW(check_schedule(whole, schedule));
    return simulate(whole, schedule).makespan;
  };
  for (const std::string start : {"both", "data-parallel", "random"}) {
    const Schedule schedule = run(start, 600);
    CHECK(schedule == run(start, 600));
    CHECK(schedule.search->evaluations == 600);
    for (const std::uint64_t budget : {0U, 1U, 30U}) CHECK(run(start, budget).search->evaluations == budget);
    CHECK(makespan(schedule) <= makespan(run(start, 0)));
    CHECK(run(start, 300, "no").rewrites.size() <= 1);  // replicas alone
  }
}

TEST_CASE("where links are fair FlexFlow proposes no splits, and spends its whole budget on placements") {
  // A tree of convolutions.
  GraphBuilder builder{"tree"};
  for (std::size_t i = 0; i < 40; ++i) {
    OpSpec op{.name = fmt::format("c{}", i),
              .type = "Conv",
              .times = {{"cpu", Nanoseconds{5 + static_cast<std::int64_t>(i * 7 % 11)}}},
              .outputs = {{fmt::format("c{}.0", i), Bytes{4}}}};
    if (i > 0) op.inputs = {fmt::format("c{}.0", (i - 1) / 2)};
    builder.add(op);
  }
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(3, Sharing::fair))};
  const FlexFlowOptions splits{.start = FlexFlowOptions::Start::random},
      none{.start = FlexFlowOptions::Start::random, .splits = false};
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const PlaceOptions run{.seed = seed, .budget = {.evaluations = 200}};
    CHECK(flexflow(problem, splits, run) == flexflow(problem, none, run));
  }
}

TEST_CASE("FlexFlow answers at random where time is up before there are replicas") {
  const Problem problem{training_graph(make_network("lenet:batch=64")), make_cluster(preset_cluster("32x8xA100"))};
  std::size_t asked = 0;
  const PlaceOptions late{.stop = [&] { return ++asked > 20; }};
  const Schedule schedule = flexflow(problem, {}, late);
  CHECK(schedule.rewrites.empty());
  CHECK_NOTHROW(check_schedule(problem, schedule));
  CHECK(asked < 100);
  asked = 0;
  CHECK_THROWS_AS(flexflow(problem, {.start = FlexFlowOptions::Start::data_parallel}, late), OutOfTime);
}
