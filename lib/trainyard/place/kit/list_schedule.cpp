#include "trainyard/place/kit/list_schedule.hpp"

#include <utility>

#include "trainyard/place/judge/retreat.hpp"
#include "trainyard/place/kit/effort.hpp"

namespace trainyard {

Schedule list_schedule(const Problem& problem, const ListOptions& options, const PlanRun& run) {
  Evaluator evaluator{problem};
  return best_retreat([&](int memory_percent) {
    AnalyticPlan plan{problem, options.insertion, memory_percent, Checkpoint{options.stop}};
    const std::vector<OpId> taken = run(plan);
    Schedule schedule = plan.schedule();
    const Outcome outcome = keep_order(evaluator, taken, options.order, schedule, options.stop);
    const bool settled = outcome.excess == Bytes{0} && !plan.memory_bound();
    return Retreat<Outcome>{std::move(schedule), outcome, settled};
  });
}

}  // namespace trainyard
