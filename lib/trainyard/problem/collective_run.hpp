#pragma once

#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// What a collective holds, and for how long, where it runs alone. With n devices d(0), d(1), ... and S bytes:
///
///     time       as measured, where the costs know it (Costs::collective_time); else steps x step(S / n)
///     step(b)    the longest of: a hop's latency + b / bandwidth; what the hops over one channel take one after the
///                other, of a fair channel their bytes alone
///
///     all-reduce                  2 (n - 1) steps of the ring d(i) -> d(i + 1)
///     all-gather, reduce-scatter  n - 1 steps of it
///     all-to-all                  n - 1 steps, in step k d(i) -> d(i + k)
///     broadcast                   n - 2 + k steps of S / k along the chain from the first device, k the
///                                 number of pieces that makes it shortest, sqrt((n - 2) S / (bandwidth latency))
///
/// Additions take no time: they overlap with what arrives. One device takes none at all.
struct CollectiveRun {
  Nanoseconds time;
  Nanoseconds latency;                              // of the steps, part of `time`
  std::vector<ChannelId> channels;                  // of all hops; distinct, ascending
  std::vector<std::pair<DeviceId, DeviceId>> hops;  // of the ring or chain, or of all pairs
  std::size_t slowest = 0;                          // of the hops
};

/// `devices`: distinct, at least one.
CollectiveRun collective_run(const Problem& problem, const CollectiveTask& task, const std::vector<DeviceId>& devices);

/// The devices of the ops before and after a collective, in the order of the first of these on each, which is the
/// ring's; of a fold CollectiveTask's.
std::vector<DeviceId> collective_devices(const Graph& graph, OpId collective, const Placement& placement);

/// What a member's device gets of the collective: the member's tensor, which is held there from the collective's start
/// on, drawn as if it came from the device before it in the ring.
struct CollectivePart {
  TensorId tensor;
  DeviceId from, to;
};
/// Of the first member with a tensor on each device, by ascending id; none of a broadcast's root, or where one device
/// has all.
std::vector<CollectivePart> collective_parts(const Graph& graph, OpId collective, const Placement& placement);

/// Bytes that each device sends on, as the time above has it.
Bytes sent_by_each(const CollectiveTask& task, std::size_t devices);

}  // namespace trainyard
