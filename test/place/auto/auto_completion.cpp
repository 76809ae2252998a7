#include "trainyard/place/auto/auto_completion.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/bound/completion.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/completion_evaluator.hpp"
#include "trainyard/place/talos/talos.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard {
namespace {

/// Three models that run at once, each a copy of the network.
Problem thrice(const Problem& one) {
  const std::array<NamedGraph, 3> models{{{"a", &one.graph()}, {"b", &one.graph()}, {"c", &one.graph()}}};
  return Problem{union_graph(models), one.cluster(), one.costs()};
}

/// Two chains of two or three ops, with tensors of one byte, on a GPU and a CPU.
Problem two_chains(Random& random) {
  GraphBuilder builder{"pair"};
  for (const std::string model : {"a", "b"}) {
    const std::size_t ops = 2 + random.below(2);
    for (std::size_t i = 0; i < ops; ++i) {
      const auto time = [&] { return Nanoseconds{static_cast<std::int64_t>(1 + random.below(9))}; };
      const std::string name = model + "::" + std::to_string(i);
      builder.add({.name = name,
                   .times = {{"cpu", time()}, {"gpu", time()}},
                   .inputs = i ? std::vector{model + "::" + std::to_string(i - 1)} : std::vector<std::string>{},
                   .outputs = {{name, Bytes{1}}}});
    }
  }
  ClusterSpec cluster = test::full_mesh(2);
  cluster.devices[0].device_class = "gpu";
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

/// Least sum of completion times over all placements and all strict orders, by enumeration.
Nanoseconds least_total(const Problem& problem) {
  const Models models = find_models(problem.graph());
  CompletionEvaluator evaluator{problem, models};
  const std::size_t count = problem.op_count();
  std::vector<std::size_t> turns(count);  // the model of each next op; chains have no other orders
  for (std::size_t i = 0; i < count; ++i) turns[i] = models.of[OpId{i}].index();
  const std::size_t first = static_cast<std::size_t>(std::ranges::count(turns, std::size_t{0}));
  Nanoseconds least = kLongestTime;
  do {
    std::array<std::size_t, 2> next{0, first};
    std::vector<OpId> order;
    for (const std::size_t model : turns) order.emplace_back(next[model]++);
    for (std::size_t devices = 0; devices < std::size_t{1} << count; ++devices) {
      Schedule schedule{.policy = Policy::strict};
      schedule.order.assign(2, {});
      for (std::size_t i = 0; i < count; ++i) schedule.placement.push_back(DeviceId{devices >> i & 1});
      for (const OpId op : order) schedule.order[schedule.placement[op]].push_back(op);
      least = std::min(least, evaluator.outcome(schedule).total);
    }
  } while (std::ranges::next_permutation(turns).found);
  return least;
}

TEST_CASE("auto for completions finds the optimum of pairs of chains, also where a device has to wait for it") {
  Random random{7};
  for (int round = 0; round < test::rounds(40); ++round) {
    CAPTURE(round);
    const Problem problem = two_chains(random);
    const Schedule schedule = auto_place(problem, auto_members(), {.objective = Objective::completion});
    CHECK(completion_outcome(problem, find_models(problem.graph()), schedule).total == least_total(problem));
  }
}

TEST_CASE("auto for completions: chains of 2, 4 and 6 on one device end at 2, 6 and 12 where the shortest goes first") {
  GraphBuilder builder{"g"};
  for (const auto& [name, time] : {std::pair{"long::op", 6}, {"middle::op", 4}, {"short::op", 2}})
    builder.add({.name = name, .times = {{"cpu", Nanoseconds{time}}}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(1))};
  const Schedule schedule = auto_place(problem, auto_members(), {.objective = Objective::completion});
  const Models models = find_models(problem.graph());
  CHECK(completion_outcome(problem, models, schedule).total == Nanoseconds{2 + 6 + 12});
  CHECK(completion_bound(problem, models) == Nanoseconds{2 + 6 + 12});
}

TEST_CASE("auto for completions is no worse than any placer, and the same on any number of threads") {
  Random random{33};
  for (int round = 0; round < test::rounds(6); ++round) {
    CAPTURE(round);
    const Problem problem = thrice(test::random_problem(random, {.most_ops = 10}));
    const Models models = find_models(problem.graph());
    PlaceOptions options{.seed = 3,
                         .objective = Objective::completion,
                         .budget = {.evaluations = round % 3 == 2 ? 0U : 2'000U},
                         .threads = 1};
    const Schedule schedule = auto_place(problem, auto_members(), options);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    const CompletionOutcome found = completion_outcome(problem, models, schedule);
    CHECK(found.total >= completion_bound(problem, models));
    for (const Placer& placer : auto_members()) {
      if (!is_asked(placer, problem, Objective::makespan)) continue;
      CAPTURE(placer.name);
      try {
        const Schedule member = placer.place(problem, {.seed = 3});
        if (member.rewrites.empty()) CHECK(found <= completion_outcome(problem, models, member));
      } catch (const InputError&) {    // has no answer
      } catch (const MissingError&) {  // needs what this build lacks
      }
    }
    options.threads = 3;
    CHECK(auto_place(problem, auto_members(), options) == schedule);
  }
}

TEST_CASE("auto for completions takes replicas where they end the models sooner, and leaves ops whole where it must") {
  const Problem lenet{training_graph(make_network("lenet")), make_cluster(preset_cluster("2xV100"))};
  const Graph alexnet = training_graph(make_network("alexnet"));
  const std::array<NamedGraph, 2> named{{{"lenet", &lenet.graph()}, {"alexnet", &alexnet}}};
  const Problem problem{union_graph(named), lenet.cluster()};
  const auto total = [&](const Schedule& schedule) {
    const Problem split = scheduled_problem(problem, schedule);
    REQUIRE(find_models(split.graph()).size() == 2);  // each sum of gradients belongs to one model
    return completion_outcome(split, find_models(split.graph()), schedule).total;
  };
  const Nanoseconds replicas = total(find_placer("data-parallel").place(problem, {}));
  PlaceOptions options{.objective = Objective::completion, .budget = {.evaluations = 200}};
  const Schedule best = auto_place(problem, auto_members(), options);
  CHECK(!best.rewrites.empty());
  CHECK(total(best) <= replicas);
  options.threads = 1;
  CHECK(auto_place(problem, auto_members(), options) == best);
  options.rewrites = false;
  const Schedule whole = auto_place(problem, auto_members(), options);
  CHECK(whole.rewrites.empty());
  CHECK(total(whole) > replicas);  // whole, alexnet takes longer than in replicas
}

}  // namespace
}  // namespace trainyard
