#include "trainyard/place/load/ideal_dp.hpp"

#include <doctest/doctest.h>

#include <string>

#include "place/load/brute_force.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "throughput/sketch.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/load/dpl.hpp"

using namespace trainyard;
using trainyard::test::LoadSketch;
using trainyard::test::ms;

namespace {

Split split_of(const LoadProblem& problem, const SplitOptions& options = {}) {
  return ideal_split(problem, contract(problem), options);
}

std::size_t ideals_of(const LoadSketch& sketch) {
  return IdealLattice::all(contract(sketch.problem()), 1'000'000).size();
}

/// A source, two chains of `length` ops, and a sink. Each op takes 1 ms.
LoadSketch two_chains(std::size_t length) {
  LoadSketch sketch{.nodes = std::vector<LoadSketch::Node>(2 * length + 2, {.gpu = 1}), .edges = {}};
  const std::size_t sink = 2 * length + 1;
  for (std::size_t i = 0; i < length; ++i) {
    sketch.edges.emplace_back(i == 0 ? 0 : 2 * i - 1, 2 * i + 1);
    sketch.edges.emplace_back(i == 0 ? 0 : 2 * i, 2 * i + 2);
  }
  sketch.edges.emplace_back(2 * length - 1, sink);
  sketch.edges.emplace_back(2 * length, sink);
  return sketch;
}

}  // namespace

TEST_CASE("a chain of 3, 6 and 3 ms on two devices splits at 9.5 ms") {
  LoadSketch sketch{.nodes = {{.gpu = 3, .cost = .5}, {.gpu = 6, .cost = .5}, {.gpu = 3}}, .edges = {{0, 1}, {1, 2}}};
  CHECK(ideals_of(sketch) == 4);
  CHECK(split_of(sketch.problem()).value == ms(12));
  sketch.gpus = 2;
  CHECK(split_of(sketch.problem()).value == ms(9.5));  // 3 + 6 + .5 | 3 + .5
  sketch.gpus = 3;
  CHECK(split_of(sketch.problem()).value == ms(7));  // 6 + .5 + .5
}

TEST_CASE("the diamond: 10, 6.5 and 5.5 ms on one, two and three devices, or 10, 5 and 4 ms overlapped") {
  CHECK(ideals_of(test::diamond(1)) == 6);
  const double added[] = {10, 6.5, 5.5}, overlapped[] = {10, 5, 4};
  for (std::size_t gpus = 1; gpus <= 3; ++gpus) {
    const LoadProblem problem = test::diamond(gpus).problem();
    CHECK(split_of(problem).value == ms(added[gpus - 1]));
    CHECK(split_of(problem, {.sum = LoadSum::overlapped}).value == ms(overlapped[gpus - 1]));
  }
}

TEST_CASE("two parallel chains of length L have (L + 1)^2 + 2 ideals") {
  CHECK(ideals_of(two_chains(1)) == 6);
  CHECK(ideals_of(two_chains(2)) == 11);
  CHECK(ideals_of(two_chains(3)) == 18);
  CHECK(ideals_of(two_chains(20)) == 443);
}

TEST_CASE("too many ideals are an error that names the way out") {
  const Finding finding = test::finding_of([&] { IdealLattice::all(contract(two_chains(20).problem()), 100); });
  CHECK(finding.code == "too-many-ideals");
  CHECK(finding.help.find("dpl") != std::string::npos);
}

TEST_CASE("training: forward 1 and 2, backward 2 and 4, on two devices take 6.75 ms") {
  const LoadProblem problem = LoadSketch{.nodes = {{.gpu = 1, .cost = .5, .color = 0},
                                                   {.gpu = 2, .color = 1},
                                                   {.gpu = 4, .cost = .25, .backward = true, .color = 1},
                                                   {.gpu = 2, .backward = true, .color = 0}},
                                         .edges = {{0, 1}, {2, 3}},
                                         .gpus = 2}
                                  .problem();
  CHECK(split_of(problem).value == ms(6.75));  // 2 + 4 + .5 + .25
}

TEST_CASE("the split is the best of all contiguous ones, and the evaluator agrees with its value") {
  Random random{21};
  int none = 0;
  for (int round = 0; round < test::rounds(400); ++round) {
    CAPTURE(round);
    const LoadProblem problem = test::random_sketch(random, round % 2 == 0 ? 7 : 5, round % 2 == 1).problem();
    const Contraction blocks = contract(problem);
    for (const LoadSum sum : {LoadSum::added, LoadSum::overlapped, LoadSum::channels}) {
      const Split split = ideal_split(problem, blocks, {.sum = sum});
      CHECK(split.value == test::best_contiguous(problem, {.sum = sum}));
      if (split.found()) {
        const LoadReport report = evaluate_load(problem, placement_of(split, blocks, problem), {.sum = sum});
        CHECK(report.feasible());
        CHECK(report.value == split.value);
      } else {
        ++none;
      }
      const Split linear = dpl(problem, blocks, {.sum = sum});
      CHECK(linear.value >= split.value);
      if (linear.found())
        CHECK(evaluate_load(problem, placement_of(linear, blocks, problem), {.sum = sum}).value == linear.value);
    }
  }
  CHECK(none > test::rounds(10U));
}

TEST_CASE("the table has the best split of every smaller number of devices") {
  Random random{22};
  for (int round = 0; round < test::rounds(100); ++round) {
    CAPTURE(round);
    LoadSketch sketch = test::random_sketch(random, 8, round % 2 == 1);
    sketch.gpus = 3;
    sketch.cpus = 1;
    const std::vector<Picoseconds> table = split_of(sketch.problem(), {.table = true}).table;
    REQUIRE(table.size() == 8);
    for (sketch.gpus = 0; sketch.gpus <= 3; ++sketch.gpus)
      for (sketch.cpus = 0; sketch.cpus <= 1; ++sketch.cpus) {
        if (sketch.gpus + sketch.cpus == 0) continue;
        CHECK(split_of(sketch.problem()).value == table[2 * sketch.gpus + sketch.cpus]);
      }
  }
}

TEST_CASE("devices that share a part divide its load and exchange its gradients") {
  // One op of 12 ms and 6 MB on two devices at 1 GB/s: (12 / 2) + 4 x 1 x 6 ms / 2 / 2 = 12; at 4 GB/s: 6 + 1.5.
  LoadSketch sketch{.nodes = {{.gpu = 12, .size = 6'000'000}}, .edges = {}, .gpus = 2};
  const LoadProblem problem = sketch.problem();
  const Split slow = split_of(problem, {.replication = {.most = 2, .bandwidth = BytesPerSecond{1e9}}});
  CHECK(slow.value == ms(12));
  const Split fast = split_of(problem, {.replication = {.most = 2, .bandwidth = BytesPerSecond{4e9}}});
  CHECK(fast.value == ms(7.5));
  REQUIRE(fast.parts.size() == 1);
  CHECK(fast.parts[0].replicas == 2);
}

TEST_CASE("replication never makes the best split worse, and one replica changes nothing") {
  Random random{23};
  for (int round = 0; round < test::rounds(100); ++round) {
    const LoadProblem problem = test::random_sketch(random, 8, round % 2 == 1).problem();
    const Picoseconds plain = split_of(problem).value;
    const Replication replication{.most = 3, .bandwidth = BytesPerSecond{1e4}};
    CHECK(split_of(problem, {.replication = {.most = 1, .bandwidth = BytesPerSecond{1e4}}}).value == plain);
    CHECK(split_of(problem, {.replication = replication}).value <= plain);
  }
}
