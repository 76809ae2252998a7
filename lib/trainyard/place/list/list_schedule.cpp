#include "trainyard/place/list/list_schedule.hpp"

#include <optional>
#include <utility>

namespace trainyard {

Schedule list_schedule(const Problem& problem, const ListOptions& options, const PlanRun& run) {
  std::optional<Outcome> best;
  Schedule chosen;
  for (const int memory_percent : {100, 90, 80, 70, 60, 50}) {
    AnalyticPlan plan{problem, options.insertion, memory_percent};
    std::vector<OpId> taken = run(plan);
    Schedule schedule = plan.schedule();
    const Outcome outcome = keep_order(problem, std::move(taken), options.order, schedule);
    if (!best || outcome < *best) {
      best = outcome;
      chosen = std::move(schedule);
    }
    if (outcome.excess == Bytes{0} && !plan.memory_bound()) break;
  }
  return chosen;
}

}  // namespace trainyard
