#include "trainyard/place/auto/multilevel.hpp"

#include <doctest/doctest.h>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard {
namespace {

TEST_CASE("a multilevel search of 1,600 ops in eight chains finds that chains belong together") {
  // Each chain has 200 ops of 10 and tensors of 1,000 between them. With two chains on each of four devices: 4,000.
  test::Instance instance;
  for (std::size_t chain = 0; chain < 8; ++chain)
    for (std::size_t i = 0; i < 200; ++i) {
      instance.times.emplace_back(4, 10);
      const std::size_t op = 200 * chain + i;
      if (i > 0) instance.edges.push_back({op - 1, op, 1'000});
    }
  const Problem problem = test::make_problem(instance);
  const Placement start(problem.op_count(), DeviceId{0});
  CHECK(simulate(problem, {.placement = start}).makespan == Nanoseconds{16'000});
  const auto found = multilevel_search(problem, start, {.evaluations = 2'000}, Random{1});
  REQUIRE(found);
  CHECK(found->outcome.makespan == Nanoseconds{4'000});
  CHECK(simulate(problem, found->schedule).makespan == Nanoseconds{4'000});
  // 2,000 evaluations of the graph, besides those of each level's own start.
  CHECK(found->evaluations < 2'100);
}

TEST_CASE("a multilevel search keeps to what devices can run and to groups, or has no answer") {
  Random random{31};
  std::size_t answers = 0;
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 900});
    const Schedule start = test::random_schedule(random, problem);
    const auto found =
        multilevel_search(problem, start.placement, {.evaluations = 50}, Random{static_cast<std::uint64_t>(round)});
    if (!found) continue;
    ++answers;
    REQUIRE_NOTHROW(check_schedule(problem, found->schedule));
    CHECK(found->outcome == test::outcome_of(problem, found->schedule));
  }
  CHECK(answers > 0);
}

TEST_CASE("a multilevel search of a training graph places its weights with what updates them") {
  const Problem problem{training_graph(make_network("resnet50")), make_cluster(preset_cluster("4xV100"))};
  const Placement start(problem.op_count(), DeviceId{0});
  const auto found = multilevel_search(problem, start, {.evaluations = 300}, Random{2});
  REQUIRE(found);
  REQUIRE_NOTHROW(check_schedule(problem, found->schedule));
}

}  // namespace
}  // namespace trainyard
