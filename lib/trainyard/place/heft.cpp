#include "trainyard/place/heft.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "trainyard/place/analytic_plan.hpp"
#include "trainyard/place/ranks.hpp"

namespace trainyard {

Schedule heft(const Problem& problem, const HeftOptions& options) {
  const std::vector<OpId> order = by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem}));
  std::optional<Outcome> best;
  Schedule chosen;
  // The plan's account of memory is a rough one, and a device filled to the brim drives what comes late apart: where
  // memory matters, plan with less of it too.
  for (const int memory_percent : {100, 90, 80, 70, 60, 50}) {
    AnalyticPlan plan{problem, options.insertion, memory_percent};
    for (const OpId op : order) plan.place(op, plan.earliest_finish(op));
    Schedule schedule = plan.schedule();
    const Outcome outcome = keep_order(problem, order, options.order, schedule);
    if (!best || outcome < *best) {
      best = outcome;
      chosen = std::move(schedule);
    }
    if (outcome.excess == Bytes{0} && !plan.memory_bound()) break;
  }
  return chosen;
}

}  // namespace trainyard
