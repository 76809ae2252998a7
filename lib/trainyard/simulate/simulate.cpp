#include "trainyard/simulate/simulate.hpp"

#include <algorithm>

#include "trainyard/simulate/engine.hpp"
#include "trainyard/simulate/memory.hpp"
#include "trainyard/simulate/transfers.hpp"
#include "trainyard/simulate/usage.hpp"

namespace trainyard {
namespace {

Nanoseconds last_end(const IdMap<OpId, Span>& ops) {
  Nanoseconds last{0};
  for (const Span& span : ops) last = std::max(last, span.end);
  return last;
}

}  // namespace

Nanoseconds simulated_makespan(const Problem& problem, const Schedule& schedule) {
  check_schedule(problem, schedule);
  const detail::PlannedTransfers planned(problem, schedule.placement);
  return last_end(detail::run_events(problem, schedule, planned).ops);
}

Timeline simulate(const Problem& problem, const Schedule& schedule) {
  check_schedule(problem, schedule);
  const detail::PlannedTransfers planned(problem, schedule.placement);
  detail::TaskTimes times = detail::run_events(problem, schedule, planned);

  Timeline timeline{};
  timeline.makespan = last_end(times.ops);
  timeline.ops = std::move(times.ops);
  timeline.transfers.reserve(planned.size());
  for (const detail::TransferId id : planned.ids()) {
    const auto also_to = planned.also_to(id);
    timeline.transfers.push_back({planned.tensor[id],
                                  planned.from[id],
                                  planned.to[id],
                                  problem.graph().bytes(planned.tensor[id]),
                                  times.transfer_ready[id],
                                  times.transfers[id].start,
                                  times.transfers[id].end,
                                  {also_to.begin(), also_to.end()}});
  }
  timeline.devices.assign(problem.device_count(), {});
  timeline.channels.assign(problem.cluster().channel_count(), {});
  detail::account_usage(problem, schedule.placement, timeline);
  detail::account_memory(problem, schedule.placement, timeline);
  return timeline;
}

}  // namespace trainyard
