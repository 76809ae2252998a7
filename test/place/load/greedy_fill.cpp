#include "trainyard/place/load/greedy_fill.hpp"

#include <doctest/doctest.h>

#include "support/support.hpp"
#include "throughput/sketch.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using trainyard::test::LoadSketch;

namespace {

std::vector<std::size_t> filled(const LoadSketch& sketch) {
  std::vector<std::size_t> devices;
  for (const DeviceId device : greedy_fill(sketch.problem())) devices.push_back(device.index());
  return devices;
}

}  // namespace

TEST_CASE("greedy-fill fills one accelerator after the other, and puts on the CPU what is left or too large") {
  LoadSketch sketch{.nodes = {{.gpu = 1, .size = 4},
                              {.gpu = 1, .size = 5},
                              {.gpu = 1, .size = 11},
                              {.gpu = 1, .size = 5},
                              {.gpu = 1, .size = 6}},
                    .edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}},
                    .gpus = 2,
                    .cpus = 1,
                    .memory = 10};
  // 4 + 5 on the first GPU; 11 fits on none; 5 on the second one, where 6 has no room. So 11 and 6 are on the CPU.
  CHECK(filled(sketch) == std::vector<std::size_t>{0, 0, 2, 1, 2});
  sketch.nodes[0].gpu = -1;
  CHECK(filled(sketch)[0] == 2);
}

TEST_CASE("greedy-fill without CPUs puts what is left where there is most room") {
  const LoadSketch sketch{.nodes = {{.gpu = 1, .size = 6}, {.gpu = 1, .size = 3}, {.gpu = 1, .size = 8}},
                          .edges = {{0, 1}, {1, 2}},
                          .gpus = 1,
                          .memory = 10};
  CHECK(filled(sketch) == std::vector<std::size_t>{0, 0, 0});
}

TEST_CASE("greedy-fill keeps colors together and ops where they can run") {
  Random random{51};
  for (int round = 0; round < test::rounds(300); ++round) {
    const LoadProblem problem = test::random_sketch(random, 10, round % 2 == 1).problem();
    try {
      const LoadReport report = evaluate_load(problem, greedy_fill(problem));
      CHECK(report.torn == 0);
      CHECK(report.misplaced == 0);
    } catch (const InputError& error) {
      CHECK(error.findings().front().code == "no-split");
    }
  }
}
