#include "trainyard/simulate/simulation.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/simulate/commit_engine.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/event_engine.hpp"
#include "trainyard/simulate/memory.hpp"
#include "trainyard/simulate/record.hpp"
#include "trainyard/simulate/usage.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard {

Simulation::Simulation(const Problem& problem)
    : problem_(std::make_shared<const detail::DenseProblem>(problem)),
      workspace_(std::make_unique<detail::Workspace>(*problem_)) {}
Simulation::Simulation(const Simulation& other)
    : problem_(other.problem_), workspace_(std::make_unique<detail::Workspace>(*problem_)) {}
Simulation& Simulation::operator=(const Simulation& other) { return *this = Simulation{other}; }
Simulation::Simulation(Simulation&&) noexcept = default;
Simulation& Simulation::operator=(Simulation&&) noexcept = default;
Simulation::~Simulation() = default;

const Problem& Simulation::problem() const { return problem_->problem; }

Nanoseconds Simulation::run(const Schedule& schedule, const Nanoseconds* durations, bool record) {
  if (schedule.policy != Policy::priority || schedule.priority.empty())
    return Nanoseconds{detail::run_commits(*problem_, schedule, durations, record, *workspace_)};
  return Nanoseconds{detail::run_event_engine(*problem_, schedule, durations, record, *workspace_)};
}

Nanoseconds Simulation::makespan(const Schedule& schedule) { return run(schedule, nullptr, false); }
Nanoseconds Simulation::makespan(const Schedule& schedule, const IdMap<OpId, Nanoseconds>& durations) {
  return run(schedule, durations.values().data(), false);
}

Timeline Simulation::timeline(const Schedule& schedule) {
  Timeline timeline{};
  timeline.makespan = run(schedule, nullptr, true);
  timeline.ops = workspace_->record.ops;
  timeline.transfers = detail::recorded_transfers(*problem_, schedule.placement, workspace_->record);
  timeline.devices.assign(problem().device_count(), {});
  timeline.channels.assign(problem().cluster().channel_count(), {});
  detail::account_usage(problem(), schedule.placement, timeline);
  detail::account_memory(problem(), schedule.placement, timeline);
  return timeline;
}

const MemoryPeaks& Simulation::peaks(const Schedule& schedule) {
  const Timeline timeline = this->timeline(schedule);
  peaks_.makespan = timeline.makespan;
  peaks_.peak.assign(timeline.devices.size(), {});
  peaks_.peak_at.assign(timeline.devices.size(), {});
  for (const DeviceId device : timeline.devices.ids()) {
    peaks_.peak[device] = timeline.devices[device].peak;
    peaks_.peak_at[device] = timeline.devices[device].peak_at;
  }
  peaks_.fits = timeline.fits();
  return peaks_;
}

}  // namespace trainyard
