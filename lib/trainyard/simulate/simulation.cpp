#include "trainyard/simulate/simulation.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "trainyard/core/error.hpp"
#include "trainyard/simulate/account/peaks.hpp"
#include "trainyard/simulate/account/timeline.hpp"
#include "trainyard/simulate/engine/choose_engine.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

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

void Simulation::check_durations(const IdMap<OpId, Nanoseconds>& durations) const {
  if (durations.size() != problem().op_count())
    refuse("size",
           "there are " + std::to_string(durations.size()) + " op times, but the problem has " +
               std::to_string(problem().op_count()) + " ops",
           "give one for each op, indexed by its id");
  std::int64_t left = (kLongestTime - problem().horizon()).count;
  for (const OpId op : durations.ids()) {
    const std::int64_t time = durations[op].count;
    if (time < 0)
      refuse("range", "op '" + std::string{problem().graph().name(op)} + "' has a negative time",
             "op times are 0 or more");
    if (time > left)
      refuse("too-large", "with these op times, the times of the run can add up to more than 2^62 ns (146 years)",
             "check the units of the largest times");
    left -= time;
  }
}

Nanoseconds Simulation::run(const Schedule& schedule, const Nanoseconds* durations, bool record) {
  check_sizes(problem(), schedule);
  assert(std::ranges::all_of(schedule.placement, [&](DeviceId on) { return on.index() < problem().device_count(); }));
  const Nanoseconds makespan = detail::run_engine(*problem_, schedule, durations, record, state_->workspace);
  // A deadlock, or ops on devices that cannot run them.
  if (makespan <= Nanoseconds{0}) check_schedule(problem(), schedule);
  return makespan;
}

Nanoseconds Simulation::makespan(const Schedule& schedule) { return run(schedule, nullptr, false); }
Nanoseconds Simulation::makespan(const Schedule& schedule, const IdMap<OpId, Nanoseconds>& durations) {
  check_durations(durations);
  return run(schedule, durations.data(), false);
}

const MemoryPeaks& Simulation::recorded_peaks(const Schedule& schedule, const Nanoseconds* durations) {
  const Nanoseconds makespan = run(schedule, durations, true);
  state_->peak_finder.find(*problem_, schedule.placement, state_->workspace.record, makespan, state_->peaks);
  return state_->peaks;
}

const MemoryPeaks& Simulation::peaks(const Schedule& schedule) { return recorded_peaks(schedule, nullptr); }

const IdMap<OpId, Span>& Simulation::spans() const { return state_->workspace.record.ops; }

Timeline Simulation::timeline(const Schedule& schedule) {
  const MemoryPeaks& found = recorded_peaks(schedule, nullptr);
  return detail::recorded_timeline(*problem_, schedule.placement, state_->workspace.record, found);
}
Timeline Simulation::timeline(const Schedule& schedule, const IdMap<OpId, Nanoseconds>& durations) {
  check_durations(durations);
  const MemoryPeaks& found = recorded_peaks(schedule, durations.data());
  return detail::recorded_timeline(*problem_, schedule.placement, state_->workspace.record, found);
}

}  // namespace trainyard
