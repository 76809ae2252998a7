#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/list/heft.hpp"
#include "trainyard/place/meta/tabu.hpp"
#include "trainyard/place/simple/simple.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

const std::vector<std::string> kNames{"annealing", "tabu", "genetic"};

/// Least outcome over all placements under fifo, by enumeration.
Outcome best_of_all(const Problem& problem) {
  Evaluator evaluator{problem};
  const auto able = group_devices(problem);
  Schedule schedule{.placement = Placement(problem.op_count())};
  std::optional<Outcome> best;
  const std::function<void(std::size_t)> place = [&](std::size_t at) {
    if (at == problem.group_count()) {
      const Outcome outcome = evaluator.outcome(schedule);
      if (!best || outcome < *best) best = outcome;
      return;
    }
    for (const DeviceId device : able[GroupId{at}]) {
      for (const OpId op : problem.group_ops(GroupId{at})) schedule.placement[op] = device;
      place(at + 1);
    }
  };
  place(0);
  return *best;
}

}  // namespace

TEST_CASE("from one of three random starts each finds what no placement is better than, on small graphs") {
  Random random{1983};
  for (int round = 0; round < test::rounds(60); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 7, .most_devices = 3});
    const Outcome best = best_of_all(problem);
    for (const std::string& name : kNames) {
      CAPTURE(name);
      std::vector<Outcome> found;
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        PlaceOptions options{
            .seed = seed, .parameters = {{"start", "random"}, {"order", "fifo"}}, .budget = {.evaluations = 2'000}};
        if (name == "annealing") options.parameters["taken"] = "0.8";  // hot enough to leave most local minima
        found.push_back(test::outcome_of(problem, find_placer(name).place(problem, options)));
      }
      CHECK(*std::ranges::min_element(found) <= best);  // less if another order is better
    }
  }
}

TEST_CASE("none is worse than HEFT, ETF or one device, whatever the budget, and none spends more than it") {
  Random random{1989};
  for (int round = 0; round < test::rounds(30); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 25});
    const Outcome list =
        std::min({test::outcome_of(problem, heft(problem)), test::outcome_of(problem, place_single(problem)),
                  test::outcome_of(problem, find_placer("etf").place(problem, {.parameters = {{"by", "finish"}}}))});
    for (const std::string& name : kNames)
      for (const std::uint64_t budget : std::vector<std::uint64_t>{0, 1, 20, 100}) {
        CAPTURE(name);
        CAPTURE(budget);
        const Schedule schedule = find_placer(name).place(problem, {.budget = {.evaluations = budget}});
        CHECK(test::outcome_of(problem, schedule) <= list);
        // Always evaluated: 3 schedules, each as it is and under 2 orders, and 5 orders at the end.
        CHECK(schedule.search->evaluations <= std::max<std::uint64_t>(budget, 14));
      }
  }
}

TEST_CASE("the same schedule on any number of threads, and for a seed") {
  const Problem problem{training_graph(make_network("lenet")), make_cluster(preset_cluster("4xV100"))};
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const auto place = [&](unsigned threads, std::uint64_t seed) {
      return find_placer(name).place(problem, {.seed = seed, .budget = {.evaluations = 300}, .threads = threads});
    };
    const Schedule one = place(1, 1);
    CHECK(place(2, 1) == one);
    CHECK(place(4, 1) == one);
    CHECK(place(1, 2).seed == 2);
  }
}

TEST_CASE("a tabu search leaves a hollow that one without memory falls back into") {
  // A chain of three ops, 5 on p0 and 1 on p1, with transfers of 100. All on p0 take 15; with one moved 106 and more;
  // with two 107; all on p1 3. Without tenure, the best move from each of those leads back to 15.
  const Problem problem = test::make_problem({{{5, 1}, {5, 1}, {5, 1}}, {{0, 1, 100}, {1, 2, 100}}});
  std::uint64_t seed = 1;
  while (place_random(problem, seed).placement != Placement(3, DeviceId{0})) ++seed;
  const auto place = [&](std::uint64_t tenure) {
    const TabuOptions options{
        .search = {.start = PlacementSearchOptions::Start::random}, .candidates = 40, .tenure = tenure};
    const PlaceOptions run{.seed = seed, .budget = {.evaluations = 1'000}};
    return test::outcome_of(problem, tabu_search(problem, options, run)).makespan;
  };
  CHECK(place(0) == Nanoseconds{15});
  CHECK(place(5) == Nanoseconds{3});
}

TEST_CASE("without time each gives HEFT's schedule, after one evaluation") {
  Random random{1987};
  const Problem problem = test::random_problem(random, {.most_ops = 12, .most_devices = 3});
  const Schedule list = heft(problem, {.stop = [] { return true; }});
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const Schedule found = find_placer(name).place(problem, {.budget = {.seconds = 0}});
    CHECK(found.search->evaluations == 1);
    CHECK(found.placement == list.placement);
    CHECK(test::outcome_of(problem, found) == test::outcome_of(problem, list));
  }
}

TEST_CASE("progress never gets worse, and a stop ends the search with its best") {
  const Problem problem{training_graph(make_network("lenet")), make_cluster(preset_cluster("2xV100"))};
  for (const std::string& name : kNames) {
    CAPTURE(name);
    std::vector<Nanoseconds> seen;
    const Schedule schedule = find_placer(name).place(
        problem, {.budget = {.evaluations = 400},
                  .on_progress = [&](const SearchProgress& progress) { seen.push_back(progress.best); }});
    CHECK(std::ranges::is_sorted(seen, std::ranges::greater{}));
    if (!seen.empty()) CHECK(test::outcome_of(problem, schedule).makespan <= seen.back());
    int asked = 0;
    const Schedule stopped = find_placer(name).place(problem, {.stop = [&] { return ++asked > 5; }});
    CHECK(stopped.search->evaluations < 1'000);
  }
}

TEST_CASE("a genetic search has the best of what it evaluated, of its first generation too") {
  // Independent ops take as long in any order, so that one more evaluation can only help. The start is evaluated twice,
  // and 5 orders at the end. In between come the other 31 of the first generation, then 30 of the second.
  test::Instance instance;
  for (std::int64_t i = 0; i < 30; ++i) instance.times.emplace_back(3, 10 + i % 7);
  const Problem problem = test::make_problem(instance);
  std::vector<Nanoseconds> found;
  for (std::uint64_t members = 0; members <= 31 + 30; ++members)
    found.push_back(test::outcome_of(problem, find_placer("genetic").place(
                                                  problem, {.parameters = {{"start", "random"}, {"order", "fifo"}},
                                                            .budget = {.evaluations = 2 + members + 5}}))
                        .makespan);
  CHECK(std::ranges::is_sorted(found, std::ranges::greater{}));
  CHECK(found[31] < found[0]);
}
