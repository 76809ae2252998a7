#pragma once

#include <cstddef>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Several training steps in sequence as one graph.
///
/// Step s (from 0) has a copy of every op: "conv1@1" in step 0, "conv1@2" in step 1. With n ops and m tensors, the copy
/// of op i has id s n + i, and that of tensor t has id s m + t.
///
/// Dependencies between steps (ties): parameters are not tensors, so the ops that touch a parameter are identified by
/// their colocation group, and those that write it by the phase `update`. In each group,
///
///     an op that is not an update   waits for all updates of the group in the previous step;
///     an update                     waits for itself in the previous step.
///
/// Nothing else waits: steps are not separated by a barrier. An update without a group is tied only to itself. Without
/// updates, only the order on each device ties the steps. A collective is in no group; its members have the ties. An
/// edge is left out if the op follows another op of its group and step that waits for the same updates.
///
/// Inputs are loaded at most one step ahead, as data loaders do: an op of type "Input" waits for its readers of two
/// steps before.
///
/// Parameters and state are held once, by the copies of step 0. A kept tensor is held to the end of its own step. For
/// this its producer has, with two steps or more, an op of no time beside it, "conv1/kept@2" (ids from steps * n on).
/// This op reads the kept tensors and comes after all ops of the step. All copies are in the group of their original.
struct UnrolledGraph {
  Graph graph;
  std::size_t steps = 1, ops_per_step = 0;
  std::size_t ties = 0;          // dependencies between one step and the next
  IdMap<OpId, OpId> original{};  // in the graph of one step; none() for an op that keeps tensors

  std::size_t step(OpId op) const;
  /// The op of one step that this one is placed with: its original, or the producer of the tensors that it keeps.
  OpId placed_as(OpId op) const;
};

/// Requires steps >= 1. One step gives the graph itself. Throws InputError ("too-large") if there would be too many
/// copies.
UnrolledGraph unroll_steps(const Graph& graph, std::size_t steps);

}  // namespace trainyard
