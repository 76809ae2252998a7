#include "trainyard/simulate/run_engine.hpp"

#include "trainyard/simulate/commit_engine.hpp"
#include "trainyard/simulate/event_engine.hpp"
#include "trainyard/simulate/priority_engine.hpp"

namespace trainyard::detail {

std::int64_t run_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                        bool record, Workspace& workspace) {
  const bool priorities = schedule.policy == Policy::priority && !schedule.priority.empty();
  const auto engine = problem.problem.cluster().has_fair_channels() ? run_event_engine
                      : priorities                                  ? run_priorities
                                                                    : run_commits;
  return engine(problem, schedule, durations, record, workspace);
}

}  // namespace trainyard::detail
