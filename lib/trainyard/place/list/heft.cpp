#include "trainyard/place/list/heft.hpp"

#include <vector>

#include "trainyard/place/kit/ranks.hpp"

namespace trainyard {

Schedule heft(const Problem& problem, const ListOptions& options) {
  const std::vector<OpId> order = by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem}));
  return list_schedule(problem, options, [&](AnalyticPlan& plan) {
    for (const OpId op : order) plan.place(op, plan.earliest_finish(op));
    return order;
  });
}

}  // namespace trainyard
