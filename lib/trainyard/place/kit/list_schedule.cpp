#include "trainyard/place/kit/list_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/judge/retreat.hpp"
#include "trainyard/place/kit/effort.hpp"

namespace trainyard {

Schedule list_schedule(const Problem& problem, const ListOptions& options, const PlanRun& run) {
  if (!run) refuse("placer", "a list schedule has no run function", "give a function that places the ops");
  Evaluator evaluator{problem};
  return best_retreat([&](int memory_percent) {
    AnalyticPlan plan{problem, options.insertion, memory_percent, Checkpoint{options.stop}};
    const std::vector<OpId> taken = run(plan);
    Schedule schedule = plan.schedule();
    if (const auto left = std::ranges::find(schedule.placement, DeviceId::none()); left != schedule.placement.end())
      refuse("not-placed",
             fmt::format("the run function of a list schedule does not place op '{}'",
                         problem.graph().name(OpId{static_cast<std::size_t>(left - schedule.placement.begin())})),
             "call AnalyticPlan::place() for every op");
    const Outcome outcome = keep_order(evaluator, taken, options.order, schedule, options.stop);
    const bool settled = outcome.excess == Bytes{0} && !plan.memory_bound();
    return Retreat<Outcome>{std::move(schedule), outcome, settled};
  });
}

Schedule list_in_order(const Problem& problem, const ListOptions& options, const std::vector<OpId>& order,
                       const SlotChoice& choose) {
  return list_schedule(problem, options, [&](AnalyticPlan& plan) {
    for (const OpId op : order) plan.place(op, choose(plan, op));
    return order;
  });
}

}  // namespace trainyard
