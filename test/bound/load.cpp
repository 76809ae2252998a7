#include "trainyard/bound/load.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "place/load/brute_force.hpp"
#include "support/support.hpp"
#include "throughput/sketch.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/solve/integer_program.hpp"

namespace trainyard::test {
namespace {

/// Whether `bound` is at most `value` and less than 3e-6 of it below: bounds are lowered by 1e-6 for solver tolerances.
bool just_below(Picoseconds bound, Picoseconds value) {
  return bound <= value && static_cast<double>(bound.count) >= static_cast<double>(value.count) * (1 - 3e-6);
}

TEST_CASE("a chain of 3, 6 and 3: by op 6, by color 9, by work 6 on two devices") {
  LoadSketch chain{
      .nodes = {{.gpu = 3, .cost = .5}, {.gpu = 6, .cost = .5}, {.gpu = 3}}, .edges = {{0, 1}, {1, 2}}, .gpus = 2};
  CHECK(load_op_bound(chain.problem()) == ms(6));
  CHECK(load_color_bound(chain.problem()) == ms(6));
  CHECK(just_below(load_work_bound(chain.problem()), ms(6)));  // (3 + 6 + 3) / 2
  CHECK(just_below(load_relaxation_bound(chain.problem()), ms(6)));
  chain.nodes[0].color = chain.nodes[1].color = 5;
  CHECK(load_color_bound(chain.problem()) == ms(9));  // 3 + 6
}

TEST_CASE("work that memory keeps from the fast devices goes to the slow one") {
  // Ten ops of 1 byte take 1 ms on a GPU that holds 4, and 10 ms on the CPU: 4 x 1 on the GPU, 6 x 10 on the CPU.
  LoadSketch sketch{.gpus = 1, .cpus = 1, .memory = 4};
  for (int i = 0; i < 10; ++i) sketch.nodes.push_back({.gpu = 1, .cpu = 10, .size = 1});
  CHECK(just_below(load_work_bound(sketch.problem()), ms(60)));
}

TEST_CASE("the busiest of two devices runs half of a chain at least, and pays for the cut") {
  if (!has_cbc()) return report_skipped("this build has no CBC");
  // Four ops of 2 ms in a chain, 1 ms per edge. A device with a load of 4 has an edge in or out: 4 + 1.
  const LoadSketch chain{.nodes = {{.gpu = 2, .cost = 1}, {.gpu = 2, .cost = 1}, {.gpu = 2, .cost = 1}, {.gpu = 2}},
                         .edges = {{0, 1}, {1, 2}, {2, 3}},
                         .gpus = 2};
  CHECK(just_below(load_work_bound(chain.problem()), ms(4)));
  CHECK(just_below(load_block_bound(chain.problem()), ms(5)));
  CHECK(best_load_bound(chain.problem()).name == "load-block");
  CHECK(just_below(load_block_bound(chain.problem(), LoadSum::overlapped), ms(4)));  // max(4, 1)
  CHECK(best_placement(chain.problem()) == ms(5));
}

TEST_CASE("no bound of the load is above what the best of all placements has") {
  Random random{21};
  std::size_t tight = 0, communicating = 0, count = 0;
  const auto rounds = test::rounds<std::size_t>(60);
  for (std::size_t round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const LoadProblem problem = random_sketch(random, 6, round % 2 == 0).problem();
    for (const LoadSum sum : {LoadSum::added, LoadSum::overlapped, LoadSum::channels})
      for (const LoadGoal goal : {LoadGoal::together, LoadGoal::apart}) {
        const LoadOptions options{sum, goal};
        const Picoseconds best = best_placement(problem, options);
        if (best == kInfiniteLoad) continue;
        ++count;
        const std::vector<LoadBound> bounds = load_bounds(problem, options);
        for (const LoadBound& bound : bounds) {
          CAPTURE(bound.name);
          REQUIRE(bound.value <= best);
        }
        const LoadBound& top = *std::ranges::max_element(bounds, {}, &LoadBound::value);
        tight += just_below(top.value, best);
        communicating += top.name == "load-relaxation" || top.name == "load-block";
      }
  }
  CHECK(count > 3 * rounds);
  CHECK(tight * 3 > count);
  if (has_cbc()) CHECK(communicating * 10 > count);
}

}  // namespace
}  // namespace trainyard::test
