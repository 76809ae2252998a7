#include "trainyard/place/pesto/moirai.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/judge/coarse.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

struct Layer {
  std::string type;
  std::vector<std::size_t> after;
};

/// Ops of 2 ns with tensors of 3 bytes, on two devices.
Problem network(const std::vector<Layer>& layers) {
  GraphBuilder builder;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    OpSpec op{.name = std::to_string(i),
              .type = layers[i].type,
              .times = {{"cpu", Nanoseconds{2}}},
              .outputs = {{"t" + std::to_string(i), Bytes{3}}}};
    for (const std::size_t earlier : layers[i].after) op.inputs.push_back("t" + std::to_string(earlier));
    builder.add(std::move(op));
  }
  return Problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
}

std::vector<std::size_t> clusters_of(const Problem& problem) {
  std::vector<std::size_t> clusters;
  for (const ClusterOpId cluster : fuse_ops(problem).cluster) clusters.push_back(cluster.index());
  return clusters;
}

}  // namespace

TEST_CASE("a convolution takes its normalization and its activation, a sum of two branches stays apart") {
  const Problem problem = network({{"Conv", {}},
                                   {"BatchNormalization", {0}},
                                   {"Relu", {1}},
                                   {"Conv", {2}},
                                   {"Relu", {3}},
                                   {"Add", {2, 4}},
                                   {"Relu", {5}},
                                   {"MaxPool", {6}},
                                   {"Relu", {7}}});
  CHECK(clusters_of(problem) == std::vector<std::size_t>{0, 0, 0, 1, 1, 2, 2, 3, 4});
}

TEST_CASE("an op joins the last op of a cluster only, not one further up") {
  // Both follow the convolution: the first one joins it.
  CHECK(clusters_of(network({{"Conv", {}}, {"Relu", {0}}, {"Relu", {0}}})) == std::vector<std::size_t>{0, 0, 1});
}

TEST_CASE("fused graphs have no cycles, and members are in topological order") {
  const Problem problem{training_graph(make_network("resnet18")), make_cluster(preset_cluster("2xV100"))};
  const Coarsening fused = fuse_ops(problem);
  CHECK(fused.members.rows() < problem.op_count());
  const Graph& graph = problem.graph();
  for (const OpId op : problem.ops())
    for (const TensorId tensor : graph.inputs(op)) CHECK(fused.cluster[graph.producer(tensor)] <= fused.cluster[op]);
  CHECK(coarse_problem(problem, fused).op_count() == fused.members.rows());
}

TEST_CASE("Moirai places what is fused as one: two branches of 4, apart behind a stem of 2") {
  // 0 feeds the branches 1 2 and 3 4, each fused to an op of 4. One ends at 2 + 4 on 0's device, the other runs from
  // 2 + 3 to 9.
  const Problem problem = network({{"MaxPool", {}}, {"Conv", {0}}, {"Relu", {1}}, {"Conv", {0}}, {"Relu", {3}}});
  const Schedule schedule = moirai(problem, 700);
  CHECK(schedule.placement[OpId{1}] == schedule.placement[OpId{2}]);
  CHECK(schedule.placement[OpId{3}] == schedule.placement[OpId{4}]);
  CHECK(simulated_makespan(problem, schedule) == Nanoseconds{9});
}
