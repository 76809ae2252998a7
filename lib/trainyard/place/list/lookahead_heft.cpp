#include "trainyard/place/list/lookahead_heft.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/kit/successors.hpp"

namespace trainyard {
namespace {

/// The latest finish of the ops `next` that must follow the op, if it is in the slot; without any, its own finish.
Nanoseconds last_finish(OpId op, const AnalyticPlan::Slot& slot, const std::vector<OpId>& next, AnalyticPlan& plan) {
  plan.try_out(op, slot);
  Nanoseconds last = next.empty() ? slot.finish : Nanoseconds{0};
  for (const OpId each : next) {
    const AnalyticPlan::Slot first = plan.trial_slot(each);
    plan.try_out(each, first);
    last = std::max(last, first.finish);
  }
  plan.end_trial();
  return last;
}

}  // namespace

Schedule lookahead_heft(const Problem& problem, const ListOptions& options) {
  const std::vector<OpId> order = by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem}));
  IdMap<OpId, std::size_t> position(problem.op_count());
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  return list_schedule(problem, options, [&](AnalyticPlan& plan) {
    for (const OpId op : order) {
      std::vector<OpId> next = successors_of(problem.graph(), op);
      sort_by(next, [&](OpId each) { return position[each]; });
      AnalyticPlan::Slot best{};
      std::pair<Nanoseconds, Nanoseconds> least;
      for (const DeviceId device : plan.candidates(op)) {
        const AnalyticPlan::Slot slot = plan.earliest_slot(op, device);
        const std::pair value{last_finish(op, slot, next, plan), slot.finish};
        if (!best.device.is_none() && value >= least) continue;
        best = slot;
        least = value;
      }
      plan.place(op, best);
    }
    return order;
  });
}

}  // namespace trainyard
