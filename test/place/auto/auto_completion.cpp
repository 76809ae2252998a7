#include "trainyard/place/auto/auto_completion.hpp"

#include <doctest/doctest.h>

#include <array>

#include "place/instances.hpp"
#include "simulate/random_problem.hpp"
#include "trainyard/bound/completion.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/talos/talos.hpp"
#include "trainyard/transform/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard {
namespace {

/// The same network three times, at once.
Problem thrice(const Problem& one) {
  const std::array<NamedGraph, 3> models{{{"a", &one.graph()}, {"b", &one.graph()}, {"c", &one.graph()}}};
  return Problem{union_graph(models), one.cluster(), one.costs()};
}

TEST_CASE("auto for completions: chains of 2, 4 and 6 on one device end at 2, 6 and 12 where the shortest goes first") {
  GraphBuilder builder{"g"};
  for (const auto& [name, time] : {std::pair{"long::op", 6}, {"middle::op", 4}, {"short::op", 2}})
    builder.add({.name = name, .times = {{"cpu", Nanoseconds{time}}}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(1))};
  const Schedule schedule = auto_place(problem, {.objective = Objective::completion});
  const Models models = find_models(problem.graph());
  CHECK(completion_outcome(problem, models, schedule).total == Nanoseconds{2 + 6 + 12});
  CHECK(completion_bound(problem, models) == Nanoseconds{2 + 6 + 12});
}

TEST_CASE("auto for completions is no worse than any placer, and the same on any number of threads") {
  Random random{33};
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    const Problem problem = thrice(test::random_problem(random, {.most_ops = 10}));
    const Models models = find_models(problem.graph());
    PlaceOptions options{.seed = 3, .objective = Objective::completion, .budget = {.evaluations = 2'000}, .threads = 1};
    const Schedule schedule = auto_place(problem, options);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    const CompletionOutcome found = completion_outcome(problem, models, schedule);
    CHECK(found.total >= completion_bound(problem, models));
    for (const Placer& placer : placers()) {
      if (!is_member(placer, problem)) continue;
      CAPTURE(placer.name);
      try {
        const Schedule member = placer.place(problem, {.seed = 3});
        if (member.splits.empty()) CHECK(found <= completion_outcome(problem, models, member));
      } catch (const InputError&) {    // has no answer
      } catch (const MissingError&) {  // needs what this build lacks
      }
    }
    options.threads = 3;
    CHECK(auto_place(problem, options) == schedule);
  }
}

TEST_CASE("auto for completions takes replicas where they end the models sooner, and leaves ops whole where it must") {
  const Problem lenet{training_graph(make_network("lenet")), make_cluster(preset_cluster("2xV100"))};
  const Graph alexnet = training_graph(make_network("alexnet"));
  const std::array<NamedGraph, 2> named{{{"lenet", &lenet.graph()}, {"alexnet", &alexnet}}};
  const Problem problem{union_graph(named), lenet.cluster()};
  const auto total = [&](const Schedule& schedule) {
    const Problem split = scheduled_problem(problem, schedule);
    REQUIRE(find_models(split.graph()).size() == 2);  // sums of gradients are of one model each
    return completion_outcome(split, find_models(split.graph()), schedule).total;
  };
  const Nanoseconds replicas = total(find_placer("data-parallel").place(problem, {}));
  PlaceOptions options{.objective = Objective::completion, .budget = {.evaluations = 200}};
  const Schedule best = auto_place(problem, options);
  CHECK(!best.splits.empty());
  CHECK(total(best) <= replicas);
  options.threads = 1;
  CHECK(auto_place(problem, options) == best);
  options.splits = false;
  const Schedule whole = auto_place(problem, options);
  CHECK(whole.splits.empty());
  CHECK(total(whole) > replicas);  // alexnet alone takes longer than on two devices
}

}  // namespace
}  // namespace trainyard
