#include "trainyard/place/load/hierarchy.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/support.hpp"
#include "throughput/sketch.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/place/load/ideal_dp.hpp"

using namespace trainyard;
using trainyard::test::LoadSketch;
using trainyard::test::ms;

namespace {

Picoseconds along(const LoadProblem& problem, const Contraction& blocks, const std::vector<BlockId>& order,
                  LoadSum sum) {
  return best_split(problem, blocks, IdealLattice::chain(order), {.sum = sum}).value;
}

}  // namespace

TEST_CASE("four ops of 4 ms on two clusters of two devices, cheaper within") {
  // An edge costs 2 ms between clusters, 1 ms within. Each device has 4 + 1. Each cluster has 5, and 2 at its cut.
  const LoadProblem problem = LoadSketch{.nodes = std::vector<LoadSketch::Node>(4, {.gpu = 4, .cost = 2}),
                                         .edges = {{0, 1}, {1, 2}, {2, 3}},
                                         .gpus = 4}
                                  .problem();
  const Contraction blocks = contract(problem);
  const std::vector<BlockId> order = linear_order(problem, blocks, LinearOrder::depth);
  const HierarchicalSplit split =
      hierarchical_split(problem, blocks, order, {.clusters = 2, .devices = 2, .inner_share = .5});
  CHECK(split.value == ms(7));
  REQUIRE(split.clusters.size() == 2);
  CHECK(split.clusters[0].load == ms(7));
  REQUIRE(split.clusters[1].parts.size() == 2);
  CHECK(split.clusters[1].parts[0].load == ms(5));
  CHECK(
      hierarchical_split(problem, blocks, order, {.clusters = 2, .devices = 2, .inner_share = .5}, LoadSum::overlapped)
          .value == ms(4));
}

TEST_CASE("clusters of one device, and one cluster whose transfers cost the same, are the plain split") {
  Random random{61};
  for (int round = 0; round < test::rounds(200); ++round) {
    CAPTURE(round);
    LoadSketch sketch = test::random_sketch(random, 10, round % 2 == 1);
    for (auto& node : sketch.nodes) node.gpu = std::max(node.gpu, 0.0);
    sketch.cpus = 0;
    const LoadProblem problem = sketch.problem();
    const Contraction blocks = contract(problem);
    const std::vector<BlockId> order = linear_order(problem, blocks, LinearOrder::depth);
    const auto sum = static_cast<LoadSum>(random.below(3));
    const Picoseconds plain = along(problem, blocks, order, sum);
    CHECK(hierarchical_split(problem, blocks, order, {.clusters = sketch.gpus, .inner_share = .25}, sum).value ==
          plain);
    CHECK(hierarchical_split(problem, blocks, order, {.devices = sketch.gpus, .inner_share = 1}, sum).value == plain);
    // Cheaper transfers within clusters never hurt.
    const LoadHierarchy dear{.clusters = 2, .devices = 2, .inner_share = 1};
    const LoadHierarchy cheap{.clusters = 2, .devices = 2, .inner_share = .5};
    CHECK(hierarchical_split(problem, blocks, order, cheap, sum).value <=
          hierarchical_split(problem, blocks, order, dear, sum).value);
  }
}

TEST_CASE("two levels are refused beyond 600 blocks") {
  LoadSketch sketch{.nodes = std::vector<LoadSketch::Node>(601, {.gpu = 1}), .edges = {}};
  const LoadProblem problem = sketch.problem();
  const Contraction blocks = contract(problem);
  CHECK_THROWS_AS(hierarchical_split(problem, blocks, linear_order(problem, blocks, LinearOrder::depth), {}),
                  InputError);
}
