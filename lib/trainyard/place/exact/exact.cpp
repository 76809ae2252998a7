#include "trainyard/place/exact/exact.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/place/baechi/m_etf.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/list/cpop.hpp"
#include "trainyard/place/list/critical_path_list.hpp"
#include "trainyard/place/list/dsc.hpp"
#include "trainyard/place/list/etf.hpp"
#include "trainyard/place/list/heft.hpp"
#include "trainyard/place/list/peft.hpp"
#include "trainyard/place/simple/simple.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

std::optional<Schedule> best_quick_schedule(const Problem& problem, const std::function<bool()>& stop) {
  Simulation simulation(problem);
  std::optional<Schedule> best;
  Nanoseconds shortest{};
  const auto consider = [&](Schedule schedule) {
    const MemoryPeaks& peaks = simulation.peaks(schedule);
    if (!peaks.fits || (best && peaks.makespan >= shortest)) return;
    shortest = peaks.makespan;
    best = std::move(schedule);
  };
  consider(place_single(problem));
  using Stop = std::function<bool()>;
  try {
    for (Schedule (*place)(const Problem&, const Stop&) :
         {+[](const Problem&p, const Stop&s) { return heft(p, {.stop = s}); },
          +[](const Problem&p, const Stop&s) { return etf(p, {.stop = s}); },
          +[](const Problem&p, const Stop&s) { return critical_path_list(p, {.stop = s}); },
          +[](const Problem&p, const Stop&s) { return cpop(p, {.stop = s}); },
          +[](const Problem&p, const Stop&s) { return peft(p, {.stop = s}); },
          +[](const Problem&p, const Stop&s) { return dsc(p, {.stop = s}); },
          +[](const Problem&p, const Stop&s) { return m_etf(p, {.stop = s}); }})
      if (!stop || !stop()) consider(place(problem, stop));
  } catch (const OutOfTime&) {  // keep the best so far
  }
  if (best) best->plan.reset();
  return best;
}

BranchAndBoundResult exact_schedule(const Problem& problem, std::uint64_t most_nodes,
                                    const std::function<bool()>& stop) {
  const std::optional<Schedule> start = best_quick_schedule(problem, stop);
  BranchAndBoundOptions options;
  options.start = start ? &*start : nullptr;
  options.most_nodes = most_nodes > 0 ? most_nodes : 1'000'000 / std::max<std::size_t>(problem.op_count(), 1);
  options.stop = stop;
  // Larger problems would take memory without a gain: the quick schedule is returned.
  const bool searched = problem.device_count() <= 128 && problem.op_count() <= 20'000;
  const auto late = [&stop] { return stop && stop(); };
  const auto quick_bound = [&] { return late() ? Nanoseconds{0} : best_lower_bound(problem).value; };
  BranchAndBoundResult result;
  if (searched && !late()) {
    result = branch_and_bound(problem, options);
  } else if (start) {
    result.schedule = *start;
    result.value = Simulation{problem}.makespan(*start);
    result.bound = quick_bound();
  }
  if (!result.schedule) {
    result.schedule = place_single(problem);
    result.value = Simulation{problem}.makespan(*result.schedule);
    result.bound = quick_bound();
    result.complete = false;
  }
  return result;
}

}  // namespace trainyard
