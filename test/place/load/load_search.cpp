#include "trainyard/place/load/load_search.hpp"

#include <doctest/doctest.h>

#include "place/load/brute_force.hpp"
#include "support/support.hpp"
#include "throughput/sketch.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/place/load/load_state.hpp"

using namespace trainyard;
using trainyard::test::LoadSketch;
using trainyard::test::ms;

TEST_CASE("loads that follow moves are those of the evaluator, moved there and back") {
  Random random{41};
  for (int round = 0; round < test::rounds(200); ++round) {
    const LoadProblem problem = test::random_sketch(random, 8, round % 2 == 1).problem();
    std::vector<DeviceId> placement(problem.color_count(), DeviceId{0});
    LoadState state{problem, placement};
    for (int step = 0; step < 30; ++step) {
      const std::size_t color = random.below(placement.size());
      const DeviceId to{random.below(problem.device_count())};
      if (!state.can_run(color, to) || !state.can_run(color, state.device(color))) continue;
      state.move(color, to);
      const LoadReport report = evaluate_load(problem, placement_of(state));
      if (report.misplaced > 0) continue;
      CHECK(state.excess() == report.excess);
      for (const DeviceId device : problem.devices()) {
        CHECK(state.forward(device) == report.devices[device].forward);
        CHECK(state.backward(device) == report.devices[device].backward);
      }
      for (const LoadGoal goal : {LoadGoal::together, LoadGoal::apart})
        CHECK(state.value({.goal = goal}) == evaluate_load(problem, placement_of(state), {.goal = goal}).value);
    }
  }
}

TEST_CASE("a tensor may have more readers than 16 bits count") {
  LoadSketch sketch{.nodes = {{.gpu = 1, .cost = 2}}, .gpus = 2};
  for (std::size_t i = 1; i <= 65'536; ++i) {
    sketch.nodes.push_back({.gpu = 0, .color = 7});
    sketch.edges.emplace_back(0, i);
  }
  const LoadProblem problem = sketch.problem();
  LoadState state{problem, {DeviceId{0}, DeviceId{1}}};
  CHECK(state.value({}) == ms(3));  // 1 + 2 out
  state.move(0, DeviceId{1});
  CHECK(state.value({}) == ms(1));
}

TEST_CASE("a search that is stopped at once has what is dealt out") {
  LoadSketch chain{.nodes = std::vector<LoadSketch::Node>(100, {.gpu = 1, .cost = .01}), .gpus = 2};
  for (std::size_t i = 1; i < chain.nodes.size(); ++i) chain.edges.emplace_back(i - 1, i);
  const LoadProblem problem = chain.problem();
  const LoadSearchResult found = search_load(problem, {.stop = [] { return true; }});
  CHECK(evaluate_load(problem, found.placement).feasible());
  CHECK(found.value < ms(53));  // 50 each, and tensors of 0.01
}

TEST_CASE("what is not contiguous can be better: 7 ms for the chain of 3, 6 and 3 on two devices") {
  const LoadProblem problem =
      LoadSketch{
          .nodes = {{.gpu = 3, .cost = .5}, {.gpu = 6, .cost = .5}, {.gpu = 3}}, .edges = {{0, 1}, {1, 2}}, .gpus = 2}
          .problem();
  CHECK(search_load(problem).value == ms(7));
}

TEST_CASE("on small problems the search finds the best of all placements, and fits where anything does") {
  Random random{42};
  int best_found = 0, rounds = 0;
  for (int round = 0; round < test::rounds(150); ++round) {
    CAPTURE(round);
    const LoadProblem problem = test::random_sketch(random, round % 2 == 0 ? 7 : 5, round % 2 == 1).problem();
    const LoadOptions goal{.sum = static_cast<LoadSum>(random.below(3)),
                           .goal = static_cast<LoadGoal>(random.below(2))};
    const Picoseconds best = test::best_placement(problem, goal);
    LoadSearchResult found;
    try {
      found = search_load(problem, {.goal = goal});
    } catch (const InputError& error) {
      CHECK(error.findings().front().code == "no-device");
      CHECK(best == kInfiniteLoad);
      continue;
    }
    const LoadReport report = evaluate_load(problem, found.placement, goal);
    CHECK(report.value == found.value);
    CHECK(report.excess == found.excess);
    CHECK(report.torn == 0);
    CHECK((found.excess.count > 0) == (best == kInfiniteLoad));
    if (best == kInfiniteLoad) continue;
    CHECK(found.value >= best);
    ++rounds;
    best_found += found.value == best ? 1 : 0;
  }
  CHECK(rounds > test::rounds(100U));
  CHECK(best_found >= rounds - 2);  // a search may miss the best
}

TEST_CASE("the search is never worse than the split along linear orders, repeats, and improves what it is given") {
  Random random{43};
  for (int round = 0; round < 20; ++round) {
    const LoadProblem problem = test::random_sketch(random, 30, round % 2 == 1).problem();
    const Contraction blocks = contract(problem);
    const Split split = dpl(problem, blocks);
    if (!split.found()) continue;
    const LoadSearchOptions options{.evaluations = 5'000, .seed = 3};
    const LoadSearchResult found = search_load(problem, options);
    CHECK(found.value <= split.value);
    CHECK(found.placement == search_load(problem, options).placement);
    CHECK(improve_load(problem, placement_of(split, blocks, problem), options).value <= split.value);
  }
}
