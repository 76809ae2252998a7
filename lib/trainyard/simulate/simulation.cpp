#include "trainyard/simulate/simulation.hpp"

#include <cassert>
#include <utility>

#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/event_engine.hpp"
#include "trainyard/simulate/memory.hpp"
#include "trainyard/simulate/peaks.hpp"
#include "trainyard/simulate/record.hpp"
#include "trainyard/simulate/run_engine.hpp"
#include "trainyard/simulate/usage.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard {

struct Simulation::State {
  explicit State(const detail::DenseProblem& problem) : workspace(problem) {}

  detail::Workspace workspace;
  detail::PeakFinder peak_finder;
  MemoryPeaks peaks;
};

Simulation::Simulation(const Problem& problem)
    : problem_(std::make_shared<const detail::DenseProblem>(problem)), state_(std::make_unique<State>(*problem_)) {}
Simulation::Simulation(const Simulation& other)
    : problem_(other.problem_), state_(std::make_unique<State>(*problem_)) {}
Simulation& Simulation::operator=(const Simulation& other) { return *this = Simulation{other}; }
Simulation::Simulation(Simulation&&) noexcept = default;
Simulation& Simulation::operator=(Simulation&&) noexcept = default;
Simulation::~Simulation() = default;

const Problem& Simulation::problem() const { return problem_->problem; }

Nanoseconds Simulation::run(const Schedule& schedule, const Nanoseconds* durations, bool record) {
  const std::int64_t makespan = detail::run_engine(*problem_, schedule, durations, record, state_->workspace);
  assert(makespan != detail::kDeadlock);
  return Nanoseconds{makespan};
}

Nanoseconds Simulation::makespan(const Schedule& schedule) { return run(schedule, nullptr, false); }
Nanoseconds Simulation::makespan(const Schedule& schedule, const IdMap<OpId, Nanoseconds>& durations) {
  return run(schedule, durations.values().data(), false);
}

const MemoryPeaks& Simulation::peaks(const Schedule& schedule) {
  const Nanoseconds makespan = run(schedule, nullptr, true);
  state_->peak_finder.find(*problem_, schedule.placement, state_->workspace.record, makespan, state_->peaks);
  return state_->peaks;
}

const IdMap<OpId, Span>& Simulation::spans() const { return state_->workspace.record.ops; }

Timeline Simulation::timeline(const Schedule& schedule) {
  const MemoryPeaks& peaks = this->peaks(schedule);
  const auto& record = state_->workspace.record;
  Timeline timeline{};
  timeline.makespan = peaks.makespan;
  timeline.ops = record.ops;
  timeline.transfers = detail::recorded_transfers(*problem_, schedule.placement, record);
  timeline.devices.assign(problem().device_count(), {});
  timeline.channels.assign(problem().cluster().channel_count(), {});
  for (const DeviceId device : problem().devices()) {
    timeline.devices[device].peak = peaks.peak[device];
    timeline.devices[device].peak_at = peaks.peak_at[device];
  }
  detail::account_usage(problem(), schedule.placement, timeline);
  if (!peaks.fits) detail::diagnose_memory(problem(), schedule.placement, timeline);
  return timeline;
}

}  // namespace trainyard
