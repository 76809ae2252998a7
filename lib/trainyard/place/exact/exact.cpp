#include "trainyard/place/exact/exact.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

std::optional<Schedule> best_quick_schedule(const Problem& problem) {
  Simulation simulation(problem);
  std::optional<Schedule> best;
  Nanoseconds shortest{};
  for (const char* name : {"single", "heft", "etf", "critical-path", "cpop", "peft", "dsc", "m-etf"}) {
    Schedule schedule = find_placer(name).place(problem, {});
    const MemoryPeaks& peaks = simulation.peaks(schedule);
    if (!peaks.fits || (best && peaks.makespan >= shortest)) continue;
    shortest = peaks.makespan;
    best = std::move(schedule);
  }
  if (best) best->plan.reset();
  return best;
}

BranchAndBoundResult exact_schedule(const Problem& problem, std::uint64_t most_nodes,
                                    const std::function<bool()>& stop) {
  const std::optional<Schedule> start = best_quick_schedule(problem);
  BranchAndBoundOptions options;
  options.start = start ? &*start : nullptr;
  options.most_nodes = most_nodes > 0 ? most_nodes : 1'000'000 / std::max<std::size_t>(problem.op_count(), 1);
  options.stop = stop;
  // Beyond this the search would only take memory: what is known stays.
  constexpr std::size_t kMostDevices = 128, kMostOps = 20'000;
  BranchAndBoundResult result;
  if (problem.device_count() <= kMostDevices && problem.op_count() <= kMostOps) {
    result = branch_and_bound(problem, options);
  } else if (start) {
    result.schedule = *start;
    result.value = Simulation{problem}.makespan(*start);
    result.bound = best_lower_bound(problem).value;
  }
  if (!result.schedule) {
    result.schedule = find_placer("single").place(problem, {});
    result.value = Simulation{problem}.makespan(*result.schedule);
    result.bound = best_lower_bound(problem).value;
    result.complete = false;
  }
  return result;
}

}  // namespace trainyard
