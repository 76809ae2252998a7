#include "trainyard/throughput/evaluate.hpp"

#include <doctest/doctest.h>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "throughput/sketch.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using trainyard::test::LoadSketch;
using trainyard::test::ms;

namespace {

LoadPlacement on(std::vector<std::size_t> devices) {
  LoadPlacement placement;
  for (const std::size_t device : devices) placement.push_back(DeviceId{device});
  return placement;
}

}  // namespace

TEST_CASE("a producer counts once on its device and once on each device that reads it") {
  // a's output goes to b on gpu1 and to c and d on gpu2.
  const LoadProblem problem = LoadSketch{.nodes = {{.gpu = 1, .cost = 10}, {.gpu = 2}, {.gpu = 3}, {.gpu = 4}},
                                         .edges = {{0, 1}, {0, 2}, {0, 3}},
                                         .gpus = 3}
                                  .problem();
  const LoadReport report = evaluate_load(problem, on({0, 1, 2, 2}));
  CHECK(report.devices[DeviceId{0}].forward == PassLoad{ms(1), ms(0), ms(10)});
  CHECK(report.devices[DeviceId{1}].forward == PassLoad{ms(2), ms(10), ms(0)});
  CHECK(report.devices[DeviceId{2}].forward == PassLoad{ms(7), ms(10), ms(0)});
  CHECK(report.value == ms(17));  // 3 + 4 compute, 10 in
  CHECK(report.feasible());
}

TEST_CASE("CPUs pay nothing, and an accelerator pays for what goes to one or comes from one") {
  const LoadProblem problem =
      LoadSketch{.nodes = {{.gpu = 1, .cost = 2, .cpu = 5}, {.gpu = 1, .cost = 3, .cpu = 5}, {.gpu = 1, .cpu = 5}},
                 .edges = {{0, 1}, {1, 2}},
                 .gpus = 1,
                 .cpus = 1}
          .problem();
  const LoadReport report = evaluate_load(problem, on({0, 1, 0}));
  CHECK(report.devices[DeviceId{0}].load(LoadSum::added) == ms(7));  // 1 + 1 compute, 2 out, 3 in
  CHECK(report.devices[DeviceId{1}].load(LoadSum::added) == ms(5));
}

TEST_CASE("overlapped communication counts where it is longer than the compute time") {
  const LoadProblem problem =
      LoadSketch{
          .nodes = {{.gpu = 1, .cost = 4}, {.gpu = 5, .cost = 3}, {.gpu = 1}}, .edges = {{0, 1}, {1, 2}}, .gpus = 2}
          .problem();
  const LoadPlacement split = on({0, 1, 0});             // gpu1: 5 compute, 4 in, 3 out; gpu0: 2 compute, 3 in, 4 out
  CHECK(evaluate_load(problem, split).value == ms(12));  // 5 + 4 + 3
  CHECK(evaluate_load(problem, split, {.sum = LoadSum::overlapped}).value == ms(7));  // max(5, 4 + 3)
  CHECK(evaluate_load(problem, split, {.sum = LoadSum::channels}).value == ms(5));    // max(5, 4, 3)
}

TEST_CASE("training: both passes of a device together, or each pass's busiest device apart") {
  // Section 6.6: forward times 1 and 2, backward 2 and 4. The forward edge costs .5, the backward edge .25.
  const LoadProblem problem = LoadSketch{.nodes = {{.gpu = 1, .cost = .5, .color = 0},
                                                   {.gpu = 2, .color = 1},
                                                   {.gpu = 4, .cost = .25, .backward = true, .color = 1},
                                                   {.gpu = 2, .backward = true, .color = 0}},
                                         .edges = {{0, 1}, {2, 3}},
                                         .gpus = 2}
                                  .problem();
  const LoadPlacement split = on({0, 1, 1, 0});
  const LoadReport report = evaluate_load(problem, split);
  CHECK(report.devices[DeviceId{0}].load(LoadSum::added) == ms(3.75));  // 1 + 2 + .5 + .25
  CHECK(report.devices[DeviceId{1}].load(LoadSum::added) == ms(6.75));  // 2 + 4 + .5 + .25
  CHECK(report.value == ms(6.75));
  CHECK(evaluate_load(problem, split, {.goal = LoadGoal::apart}).value == ms(6.75));  // forward 2.5 + backward 4.25
}

TEST_CASE("memory, device kinds and colors that are not kept are counted") {
  const LoadProblem problem = LoadSketch{.nodes = {{.gpu = 1, .color = 0, .size = 7},
                                                   {.gpu = -1, .cpu = 3, .color = 1, .size = 6},
                                                   {.gpu = 1, .cpu = 3, .color = 0, .size = 2}},
                                         .edges = {},
                                         .gpus = 1,
                                         .cpus = 1,
                                         .memory = 10}
                                  .problem();
  const LoadReport all = evaluate_load(problem, on({0, 0, 0}));
  CHECK(all.excess == Bytes{5});  // 7 + 6 + 2 - 10
  CHECK(all.misplaced == 1);
  CHECK(all.torn == 0);
  CHECK_FALSE(all.feasible());
  const LoadReport torn = evaluate_load(problem, on({0, 1, 1}));
  CHECK(torn.excess == Bytes{0});
  CHECK(torn.torn == 1);
  CHECK(evaluate_load(problem, on({0, 1, 0})).feasible());
}

TEST_CASE("no placement is below the lower bound") {
  Random random{11};
  for (int round = 0; round < test::rounds(500); ++round) {
    const LoadProblem problem = test::random_sketch(random, 6, round % 2 == 0).problem();
    const Picoseconds bound = load_lower_bound(problem);
    for (int draw = 0; draw < 20; ++draw) {
      LoadPlacement placement(problem.op_count());
      for (const OpId op : problem.ops()) placement[op] = DeviceId{random.below(problem.device_count())};
      const LoadReport report = evaluate_load(problem, placement);
      if (report.feasible()) CHECK(report.value >= bound);
    }
  }
}

TEST_CASE("ops on no device, and times that are not those of ops and kinds, are refused") {
  const LoadProblem problem = LoadSketch{.nodes = {{.gpu = 1}, {.gpu = 2}}, .edges = {{0, 1}}, .gpus = 2}.problem();
  CHECK_THROWS_AS(evaluate_load(problem, on({0})), InputError);
  CHECK_THROWS_AS(evaluate_load(problem, on({0, 2})), InputError);
  CHECK_THROWS_AS(evaluate_load(problem, LoadPlacement(2)), InputError);  // each op on none()
  LoadParts parts{.kinds = {{"gpu"}}, .devices = IdMap<DeviceId, KindId>(1, KindId{0}), .ops = IdMap<OpId, LoadOp>(2)};
  CHECK_THROWS_AS(LoadProblem{parts}, InputError);
  parts.times = {ms(1), ms(2)};
  CHECK(LoadProblem{parts}.op_count() == 2);
  parts.devices = IdMap<DeviceId, KindId>(1);
  CHECK_THROWS_AS(LoadProblem{parts}, InputError);
}

TEST_CASE("a cycle is an error that names an op on it") {
  CHECK(test::code_of([&] {
          LoadSketch{.nodes = {{.gpu = 1}, {.gpu = 1}}, .edges = {{0, 1}, {1, 0}}}.problem();
        }) == "cycle");
}
