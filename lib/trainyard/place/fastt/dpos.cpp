#include "trainyard/place/fastt/dpos.hpp"

#include <utility>
#include <vector>

#include "trainyard/place/judge/retreat.hpp"

namespace trainyard {

Schedule dpos(const Problem& problem, const DposOptions& options) {
  detail::DposEngine engine{problem, options.rules, Checkpoint{options.stop}};
  Evaluator evaluator{problem};
  return best_retreat([&](int memory_percent) {
    Schedule schedule{.placement = Placement(problem.op_count()),
                      .plan = Plan{engine.plan(memory_percent), IdMap<OpId, Nanoseconds>(problem.op_count())},
                      .rewrites = problem.rewrites()};
    for (const OpId op : problem.ops()) {
      const auto node = static_cast<detail::DposEngine::Node>(op.index());
      schedule.placement[op] = engine.device(node);
      schedule.plan->start[op] = engine.start(node);
    }
    std::vector<OpId> taken;
    taken.reserve(problem.op_count());
    for (const auto node : engine.taken()) taken.emplace_back(node);
    const Outcome outcome = keep_order(evaluator, taken, options.order, schedule);
    const bool settled = (outcome.excess == Bytes{0} && !engine.memory_bound()) || (options.stop && options.stop());
    return Retreat<Outcome>{std::move(schedule), outcome, settled};
  });
}

}  // namespace trainyard
