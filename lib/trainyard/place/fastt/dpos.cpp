#include "trainyard/place/fastt/dpos.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace trainyard {

Schedule dpos(const Problem& problem, const DposOptions& options) {
  detail::DposEngine engine{problem, options.rules};
  std::optional<Outcome> best;
  Schedule chosen;
  for (const int percent : {100, 90, 80, 70, 60, 50}) {
    Schedule schedule{.placement = Placement(problem.op_count()),
                      .plan = Plan{engine.plan(percent), IdMap<OpId, Nanoseconds>(problem.op_count())},
                      .splits = problem.splits()};
    for (const OpId op : problem.ops()) {
      const auto node = static_cast<detail::DposEngine::Node>(op.index());
      schedule.placement[op] = engine.device(node);
      schedule.plan->start[op] = engine.start(node);
    }
    std::vector<OpId> taken;
    taken.reserve(problem.op_count());
    for (const auto node : engine.taken()) taken.emplace_back(node);
    const Outcome outcome = keep_order(problem, std::move(taken), options.order, schedule);
    if (!best || outcome < *best) {
      best = outcome;
      chosen = std::move(schedule);
    }
    if (outcome.excess == Bytes{0} && !engine.memory_bound()) break;
  }
  return chosen;
}

}  // namespace trainyard
