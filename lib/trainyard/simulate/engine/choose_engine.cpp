#include "trainyard/simulate/engine/choose_engine.hpp"

#include "trainyard/simulate/engine/commit_engine.hpp"
#include "trainyard/simulate/engine/event_engine.hpp"
#include "trainyard/simulate/engine/priority_engine.hpp"

namespace trainyard::detail {

Nanoseconds run_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations, bool record,
                       Workspace& workspace) {
  const bool slowed = problem.problem.copies_slow_ops() && durations == nullptr;
  const bool events = schedule.rule || problem.problem.cluster().has_fair_channels() || slowed;
  const auto engine = events ? run_event_engine : schedule.links_by_priority() ? run_priorities : run_commits;
  return engine(problem, schedule, durations, record, workspace);
}

}  // namespace trainyard::detail
