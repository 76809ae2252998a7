#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "support/written_out.hpp"
#include "trainyard/simulate/delta.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::test {
namespace {

Problem on(const Graph& graph, const ClusterSpec& spec) { return Problem{graph, make_cluster(spec)}; }

TEST_CASE("a schedule has the same timeline on a fabric as on its links, switches and routes written out") {
  const std::vector<FabricSpec> fabrics = small_fabrics();
  std::size_t transfers = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(600U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(31, seed);
    RandomProblemOptions options;
    options.most_ops = 60;
    options.plain_cluster = true;
    options.zero_times = seed % 2 == 0 ? 0.0 : 0.2;
    const Graph graph = random_problem(random, options).graph();
    const ClusterSpec spec = cluster_of(fabrics[seed % fabrics.size()]);
    const Problem computed = on(graph, spec), stored = on(graph, written_out(spec));
    for (const Policy policy : {Policy::fifo, Policy::priority, Policy::strict}) {
      Schedule schedule = random_schedule(random, computed);
      schedule.policy = policy;
      const Timeline timeline = simulate(computed, schedule);
      REQUIRE(timeline == simulate(stored, schedule));
      REQUIRE(Simulation{computed}.makespan(schedule) == timeline.makespan);
      if (seed % 10 == 0) REQUIRE(naive_simulate(computed, schedule).makespan == timeline.makespan);
      transfers += timeline.transfers.size();
    }
  }
  CHECK(transfers > test::rounds(10'000U));
}

TEST_CASE("a move on a fabric gives what a full simulation gives") {
  const std::vector<FabricSpec> fabrics = all_fabrics();
  for (std::uint64_t seed = 0; seed < test::rounds(100U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(32, seed);
    RandomProblemOptions options;
    options.most_ops = 60;
    options.plain_cluster = true;
    const Problem problem = on(random_problem(random, options).graph(), cluster_of(fabrics[seed % fabrics.size()]));
    Schedule schedule = random_schedule(random, problem);
    schedule.policy = seed % 2 == 0 ? Policy::fifo : Policy::priority;
    if (seed % 5 == 0) REQUIRE(naive_simulate(problem, schedule).makespan == simulate(problem, schedule).makespan);
    DeltaSimulation run{problem, schedule};
    for (int move = 0; move < 20; ++move) {
      const GroupId group{random.below(problem.group_count())};
      const DeviceId device{random.below(problem.device_count())};
      for (const OpId op : problem.group_ops(group)) schedule.placement[op] = device;
      const DeltaResult moved = run.try_move(problem.group_ops(group), device);
      REQUIRE(moved.complete());
      run.accept();
      REQUIRE(run.makespan() == simulate(problem, schedule).makespan);
    }
  }
}

}  // namespace
}  // namespace trainyard::test
