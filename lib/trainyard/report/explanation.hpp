#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/critical_path.hpp"

namespace trainyard {

/// A task of the critical path: an op or a transfer, with the time that it waited for its device or channel.
struct PathTask {
  PathStep step;
  Nanoseconds ready{}, start{}, end{};
  Nanoseconds gap{};  // from the end of the previous task to `start`: the shared resource is blocked in between

  // If the task waited: the activity of its resource from `ready` to `start`. The resource of a transfer is the channel
  // of its route that was busy longest in this time.
  ChannelId channel = ChannelId::none();  // of a transfer that waited
  Nanoseconds busy_meanwhile{};           // the rest of the wait is gaps, and idle time imposed by the task order
  std::size_t tasks_meanwhile = 0;        // tasks that ran or were carried, at least in part

  Nanoseconds waited() const { return start - ready; }
  friend bool operator==(const PathTask&, const PathTask&) = default;
};

/// The part of the critical path on one device, or from one device to another.
struct PathShare {
  DeviceId device;                 // the device of the ops, or the sender
  DeviceId to = DeviceId::none();  // of transfers
  std::size_t tasks = 0;
  Nanoseconds time{};    // sum over the tasks; at most the makespan
  Nanoseconds waited{};  // the longest wait of a task; no sum, since waits for one device or link overlap

  friend bool operator==(const PathShare&, const PathShare&) = default;
};

/// Breakdown of a device's time from 0 to the makespan; the four parts add up to the makespan.
struct DeviceTime {
  Nanoseconds running;   // ops, and the gaps after them
  Nanoseconds awaiting;  // idle before its last op, while a transfer to it is in flight
  Nanoseconds idle;      // idle before its last op, with no transfer to it in flight
  Nanoseconds done;      // after its last op

  friend bool operator==(const DeviceTime&, const DeviceTime&) = default;
};

/// Breakdown of a step's makespan along its critical path, and of each device's time.
struct Explanation {
  std::vector<PathTask> path;        // covers 0 to the makespan without holes
  Nanoseconds ops, transfers, gaps;  // time on the path; they add up to the makespan
  std::vector<PathShare> shares;     // longest first; ties: devices first, then lower ids
  IdMap<DeviceId, DeviceTime> devices;
};

/// Explains the makespan of `timeline`, which must be the timeline of `schedule`. Throws InputError as check_sizes()
/// and check_transfers() do.
Explanation explain(const Problem& problem, const Schedule& schedule, const Timeline& timeline);

/// A task that occupied the device or channel for which another task waited.
struct Occupant {
  OpId op;                   // none if it is a transfer
  std::size_t transfer = 0;  // index into Timeline::transfers
  Nanoseconds time;          // part of the wait during which it ran

  friend bool operator==(const Occupant&, const Occupant&) = default;
};

struct Wait {
  std::size_t task;  // index into Explanation::path
  /// Ops on its device, or transfers on its channel, that took most of the wait; longest first, ties: earlier first.
  std::vector<Occupant> occupants;
};
/// The `count` longest waits of the path, or fewer, with at most `most` occupants each; ties: earlier first. Throws as
/// explain() and path_runs() do.
std::vector<Wait> longest_waits(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                                const Explanation& explanation, std::size_t count, std::size_t most);

/// Maximal run of consecutive path tasks on one device, or from one device to another.
struct PathRun {
  std::size_t first, last;  // tasks of the path, both included
  Nanoseconds start, end;
  Nanoseconds waited;  // the longest wait of its tasks

  friend bool operator==(const PathRun&, const PathRun&) = default;
};
/// The path as runs. Throws InputError ("unknown-op", "unknown-transfer") if the explanation is of another timeline.
std::vector<PathRun> path_runs(const Schedule& schedule, const Timeline& timeline, const Explanation& explanation);

}  // namespace trainyard
