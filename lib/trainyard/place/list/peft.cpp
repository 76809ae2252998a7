#include "trainyard/place/list/peft.hpp"

#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/list/optimistic_costs.hpp"

namespace trainyard {

Schedule peft(const Problem& problem, const ListOptions& options) {
  const MeanCosts means{problem};
  const OptimisticCosts costs{problem, means, OptimisticCosts::Kind::optimistic};
  IdMap<OpId, ScaledTime> priority(problem.op_count());
  for (const OpId op : problem.ops()) priority[op] = costs.sum(op);
  return list_in_order(problem, options, by_priority_when_free(problem, priority),
                       [&](AnalyticPlan& plan, OpId op) { return costs.choose(plan, op); });
}

}  // namespace trainyard
