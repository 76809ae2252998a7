#include "trainyard/simulate/engine/commit_engine.hpp"

#include <cassert>
#include <cstddef>
#include <type_traits>

#include "trainyard/simulate/engine/commit_walk.hpp"

namespace trainyard::detail {

Nanoseconds run_commits(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                        bool record, Workspace& workspace) {
  using Links = DenseProblem::Links;
  assert(!schedule.by_priority());
  assert(!problem.problem.cluster().has_fair_channels());
  // Ops of zero duration are finished outside the queue; only the general form supports that.
  Links links = problem.zero_durations ? Links::queued : problem.links;
  GivenDurations given{durations, true};
  Nanoseconds horizon = problem.horizon;
  if (durations != nullptr)
    for (std::size_t op = 0; op < problem.ops; ++op) {
      horizon += durations[op];
      // An op of zero duration may occur where the closed forms assume none.
      if (durations[op] == Nanoseconds{0}) {
        links = Links::queued;
        given.closed_links = false;
        workspace.walk.instant.reserve(problem.ops);
      }
    }
  if (record) workspace.record.prepare(problem);
  const std::size_t tasks = (problem.collectives ? 3 : 2) * std::size_t{problem.ops};
  return workspace.queues.with_fastest(problem.devices, tasks, horizon, [&](auto& queue) {
    // If transfers enter the queue, tasks follow each other about twice as fast.
    const bool both = links == Links::queued;
    queue.prepare(both ? tasks : problem.ops, Nanoseconds{problem.mean_gap.count / (both ? 2 : 1)});
    return with_links(links, [&](auto form) {
      return with_flag(schedule.policy == Policy::strict, [&](auto strict) {
        return with_flag(record, [&](auto recorded) {
          using Walk = CommitWalk<std::remove_reference_t<decltype(queue)>, decltype(form)::value,
                                  decltype(strict)::value, decltype(recorded)::value>;
          return Walk{problem, schedule, given, workspace, queue}.run();
        });
      });
    });
  });
}

}  // namespace trainyard::detail
