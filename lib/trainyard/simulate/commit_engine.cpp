#include "trainyard/simulate/commit_engine.hpp"

#include <cassert>
#include <cstddef>

#include "trainyard/simulate/commit_walk.hpp"

namespace trainyard::detail {
namespace {

using Links = DenseProblem::Links;

template <class Queue, Links kLinks>
std::int64_t run_with(const DenseProblem& problem, const Schedule& schedule, const GivenDurations& durations,
                      bool record, Workspace& workspace, Queue& queue) {
  // Where transfers enter the queue, tasks follow each other about twice as fast.
  constexpr bool kBoth = kLinks == Links::queued;
  queue.prepare(problem.ops * (kBoth ? 2U : 1U), problem.mean_gap / (kBoth ? 2 : 1));
  const auto go = [&](auto walk) { return schedule.policy == Policy::strict ? walk.strict() : walk.fifo(); };
  return record ? go(CommitWalk<Queue, kLinks, true>{problem, schedule, durations, workspace, queue})
                : go(CommitWalk<Queue, kLinks, false>{problem, schedule, durations, workspace, queue});
}

template <class Queue>
std::int64_t run_with(const DenseProblem& problem, Links links, const Schedule& schedule,
                      const GivenDurations& durations, bool record, Workspace& workspace, Queue& queue) {
  switch (links) {
    case Links::pairs:
      return run_with<Queue, Links::pairs>(problem, schedule, durations, record, workspace, queue);
    case Links::egresses:
      return run_with<Queue, Links::egresses>(problem, schedule, durations, record, workspace, queue);
    case Links::queued:
      break;
  }
  return run_with<Queue, Links::queued>(problem, schedule, durations, record, workspace, queue);
}

/// From this many devices on the wheel is faster, and from kManyDevices a larger one.
constexpr std::uint32_t kSomeDevices = 33, kManyDevices = 256;

}  // namespace

std::int64_t run_commits(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                         bool record, Workspace& workspace) {
  assert(schedule.policy != Policy::priority || schedule.priority.empty());
  assert(!problem.problem.cluster().has_fair_channels());
  // Ops of zero duration are finished beside the queue, which only the general form does.
  Links links = problem.zero_durations ? Links::queued : problem.links;
  GivenDurations given{durations, true};
  std::int64_t horizon = problem.horizon;
  if (durations != nullptr)
    for (std::uint32_t op = 0; op < problem.ops; ++op) {
      horizon += durations[op].count;
      // It may stand where the closed forms rely on there being none.
      if (durations[op].count == 0) {
        links = Links::queued;
        given.closed_links = false;
        workspace.instant.reserve(problem.ops);
      }
    }
  if (record) workspace.prepare_record(problem);
  const std::size_t tasks = 2 * std::size_t{problem.ops};
  if (problem.devices < kSomeDevices && PackedHeap::fits(tasks, horizon))
    return run_with(problem, links, schedule, given, record, workspace, workspace.heap);
  if (problem.devices < kManyDevices)
    return run_with(problem, links, schedule, given, record, workspace, workspace.wheel);
  return run_with(problem, links, schedule, given, record, workspace, workspace.large_wheel);
}

}  // namespace trainyard::detail
