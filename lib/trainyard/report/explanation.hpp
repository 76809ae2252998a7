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

/// A task of the critical path, with what it waited for.
struct PathTask {
  PathStep step;
  Nanoseconds ready{}, start{}, end{};
  Nanoseconds gap{};  // from the end of the task before to the start: what the resource that both need stays blocked

  // Where the task was ready before it started: what its resource did from `ready` to `start`. Of a transfer, that is
  // the channel of its route that carried most in this time.
  ChannelId channel = ChannelId::none();  // of a transfer that waited
  Nanoseconds busy_meanwhile{};           // the rest is gaps, and idle time that the order asks for
  std::size_t tasks_meanwhile = 0;        // that ran, or were carried, in part at least

  Nanoseconds waited() const { return start - ready; }
  friend bool operator==(const PathTask&, const PathTask&) = default;
};

/// The part of the critical path on one device, or from one device to another.
struct PathShare {
  DeviceId device;                 // the one, or the sender
  DeviceId to = DeviceId::none();  // of transfers
  std::size_t tasks = 0;
  Nanoseconds time{};    // of the tasks; at most the makespan
  Nanoseconds waited{};  // the longest wait of a task that was ready before; waits of one device or link overlap

  friend bool operator==(const PathShare&, const PathShare&) = default;
};

/// A device's time from 0 to the makespan, in four parts that add up to it.
struct DeviceTime {
  Nanoseconds running;   // ops, and the gaps after them
  Nanoseconds awaiting;  // idle before its last op, while something is on its way to it
  Nanoseconds idle;      // idle before its last op, and nothing is
  Nanoseconds done;      // after its last op

  friend bool operator==(const DeviceTime&, const DeviceTime&) = default;
};

/// Why a step takes as long as it does.
struct Explanation {
  std::vector<PathTask> path;        // from 0 to the makespan, without holes
  Nanoseconds ops, transfers, gaps;  // of the path; they add up to the makespan
  std::vector<PathShare> shares;     // longest first; ties: devices first, then lower ids
  IdMap<DeviceId, DeviceTime> devices;
};

/// `timeline` must be the schedule's. Throws InputError as check_sizes() and check_transfers() do.
Explanation explain(const Problem& problem, const Schedule& schedule, const Timeline& timeline);

/// The reason for which a task waited.
struct Occupant {
  OpId op;                   // none: a transfer
  std::size_t transfer = 0;  // index into Timeline::transfers
  Nanoseconds time;          // of the waiting, that it ran

  friend bool operator==(const Occupant&, const Occupant&) = default;
};

struct Wait {
  std::size_t task;  // of Explanation::path
  /// The ops on its device, or the transfers on its channel, that took most of the waiting; longest first, ties:
  /// earlier first.
  std::vector<Occupant> occupants;
};
/// The longest waits of the path, at most `count`, with at most `most` occupants each; ties: earlier first. Throws as
/// explain() does, and as path_runs().
std::vector<Wait> longest_waits(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                                const Explanation& explanation, std::size_t count, std::size_t most);

/// Runs of the path on one device, or from one device to another: what a person reads.
struct PathRun {
  std::size_t first, last;  // tasks of the path, both included
  Nanoseconds start, end;
  Nanoseconds waited;  // the longest of its tasks

  friend bool operator==(const PathRun&, const PathRun&) = default;
};
/// Throws InputError ("unknown-op", "unknown-transfer") for the explanation of another timeline.
std::vector<PathRun> path_runs(const Schedule& schedule, const Timeline& timeline, const Explanation& explanation);

}  // namespace trainyard
