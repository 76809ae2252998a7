#include "trainyard/place/list/peft.hpp"

#include <vector>

#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/list/optimistic_costs.hpp"

namespace trainyard {

Schedule peft(const Problem& problem, const ListOptions& options) {
  const MeanCosts means{problem};
  const OptimisticCosts costs{problem, means, OptimisticCosts::Kind::optimistic};
  IdMap<OpId, ScaledTime> priority(problem.op_count());
  for (const OpId op : problem.ops()) priority[op] = costs.sum(op);
  const std::vector<OpId> order = by_priority_when_free(problem, priority);
  return list_schedule(problem, options, [&](AnalyticPlan& plan) {
    for (const OpId op : order) plan.place(op, costs.choose(plan, op));
    return order;
  });
}

}  // namespace trainyard
