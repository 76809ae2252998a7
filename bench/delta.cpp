// Time of an incremental simulation of a small change, compared with a full simulation (makespan only) in the same
// process. 1,000 moves of single ops to random devices are tried one after the other, and each is rejected. The base is
// the shape's own placement, or one with a twentieth of its ops on random devices ("disturbed"). Every tenth result is
// checked against the full simulation.

#include "trainyard/simulate/delta.hpp"

#include <cstdio>
#include <vector>

#include "measure.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/statistics.hpp"
#include "workloads.hpp"

namespace {

using namespace trainyard;
using namespace trainyard::bench;

constexpr std::size_t kMoves = 1'000, kFullRuns = 60;

/// Returns false if a result differs from the full simulation.
bool measure_moves(const Workload& workload, const Schedule& base, const std::vector<Schedule>& schedules,
                   const char* name) {
  const Problem& problem = workload.problem;
  DeltaSimulation delta{problem, base};
  Simulation full{problem};
  Random random{5};
  std::vector<double> moves;
  for (std::size_t made = 0; made < kMoves;) {
    const auto ops = problem.group_ops(GroupId{random.below(problem.group_count())});
    const DeviceId to{random.below(problem.device_count())};
    if (ops.size() > 1 || to == delta.schedule().placement[ops[0]] || !problem.can_run(ops[0], to)) continue;
    DeltaResult result{};
    moves.push_back(thread_time_of([&] { result = delta.try_move(ops, to); }));
    if (++made % 10 == 0 && result.makespan != full.makespan(delta.schedule())) return false;
    delta.reject();
  }
  std::vector<double> runs;
  for (std::size_t i = 0; i < kFullRuns; ++i)
    runs.push_back(thread_time_of([&] { full.makespan(schedules[i % schedules.size()]); }));
  const double run = median(runs);
  const double mean = mean_of(moves);
  std::printf("%-32s %-16s  full %7.0f us   change %7.1f us   1/%.1f   median 1/%.1f\n",
              name_of(workload.setting).c_str(), name, run * 1e6, mean * 1e6, run / mean, run / median(moves));
  return true;
}

}  // namespace

int main() {
  bool equal = true;
  for (const Setting& setting :
       {Setting{.shape = Shape::layered, .width = 32}, Setting{.shape = Shape::layered, .width = 512},
        Setting{.shape = Shape::branched}, Setting{.shape = Shape::transformer}, Setting{.shape = Shape::network},
        Setting{.shape = Shape::layered, .fabric = Fabric::star, .width = 32},
        Setting{.shape = Shape::transformer, .fabric = Fabric::star}}) {
    const Workload workload = make_workload(setting);
    const Schedule home = make_workload(setting, 1, 0).fifo.front();
    equal = measure_moves(workload, home, workload.fifo, "fifo") && equal;
    equal = measure_moves(workload, workload.fifo.front(), workload.fifo, "fifo, disturbed") && equal;
    const std::vector<Schedule> strict = strict_schedules(workload);
    equal = measure_moves(workload, strict.front(), strict, "strict, disturbed") && equal;
  }
  if (!equal) std::puts("A CHANGE DIFFERS FROM ITS FULL SIMULATION");
  return equal ? 0 : 1;
}
