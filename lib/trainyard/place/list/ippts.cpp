#include "trainyard/place/list/ippts.hpp"

#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/kit/successors.hpp"
#include "trainyard/place/list/optimistic_costs.hpp"

namespace trainyard {

Schedule ippts(const Problem& problem, const ListOptions& options) {
  const MeanCosts means{problem};
  const OptimisticCosts costs{problem, means, OptimisticCosts::Kind::predicted};
  IdMap<OpId, ScaledTime> priority(problem.op_count());
  for (const OpId op : problem.ops())
    priority[op] = costs.sum(op) * static_cast<ScaledTime>(successors_of(problem.graph(), op).size());
  return list_in_order(problem, options, by_priority_when_free(problem, priority),
                       [&](AnalyticPlan& plan, OpId op) { return costs.choose(plan, op); });
}

}  // namespace trainyard
