#include "profiler/run/cuda/plan.hpp"

#include <doctest/doctest.h>

#include "profiler/run/cuda/plan_hazards.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("an operand stays in its place until a reader of no duration has read it") {
  // a -> t -> b (0 ns) at 1000 ns. Op c follows a, also at 1000 ns, and writes u, which would fit into t's place.
  GraphBuilder builder{"labels"};
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{1'000}}}, .outputs = {{"t", Bytes{4'096}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{0}}}, .inputs = {"t"}, .outputs = {{"v", Bytes{4'096}}}});
  builder.add(
      {.name = "c", .times = {{"gpu", Nanoseconds{0}}}, .inputs = {"t", "v"}, .outputs = {{"u", Bytes{4'096}}}});
  builder.add({.name = "d", .times = {{"gpu", Nanoseconds{500}}}, .inputs = {"u"}});
  const Problem problem{std::move(builder).build(),
                        make_cluster({.name = "one", .devices = {{.name = "gpu0", .device_class = "gpu"}}})};
  const Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0})};
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
  CHECK(hazards(plan) == 0);
  CHECK(plan.arena[DeviceId{0}] == Bytes{3 * 4'096});  // t, v and u are live at once
}

TEST_CASE("random schedules never read what was written over, nor touch bytes in no order") {
  Random random{21};
  for (int round = 0; round < test::rounds(200); ++round) {
    CAPTURE(round);
    const Problem problem = random_problem(random);
    const Schedule schedule = random_schedule(random, problem);
    CHECK(hazards(cuda::make_plan(problem, schedule, simulate(problem, schedule))) == 0);
  }
}
