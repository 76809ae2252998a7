#pragma once

#include <cstddef>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Several training steps in sequence as one graph.
///
/// Step s (from 0) has a copy of every op, "conv1@1" in step 0, "conv1@2" in step 1; with n ops and m tensors the copy
/// of op i has id s n + i, that of tensor t has id s m + t.
///
/// Ties between steps: parameters are not tensors, so the ops that touch one are told by their colocation group, and
/// those that write it by the phase `update`. Of each group,
///
///     an op that is no update    waits for all updates of the group in the step before;
///     an update                  waits for itself in the step before.
///
/// Nothing else waits: there is no barrier between steps. An update without a group ties only itself; without updates
/// nothing but the devices' order ties the steps. A collective is in no group: its members have the ties. An edge is
/// left out where another op of the same group and step stands before the op and waits for the same.
///
/// Inputs are there a step ahead and no further, as loaders of data have them: an op of type "Input" waits for its
/// readers two steps before.
///
/// Parameters and state are held once, by the copies of step 0. A kept tensor is held to the end of its own step: with
/// two steps or more its producer has an op of no time beside it, "conv1/kept@2" (ids from steps * n on), which reads
/// what is kept and comes after all ops of the step. All copies are in the group of their original.
struct UnrolledGraph {
  Graph graph;
  std::size_t steps = 1, ops_per_step = 0;
  std::size_t ties = 0;          // dependencies between one step and the next
  IdMap<OpId, OpId> original{};  // in the graph of one step; none for an op that keeps tensors

  std::size_t step(OpId op) const;
  /// The op of one step that tells where this one is placed: its original, or the producer of what it keeps.
  OpId placed_as(OpId op) const;
};

/// steps >= 1; one step is the graph itself. Throws InputError where the copies are too many ("too-large").
UnrolledGraph unroll_steps(const Graph& graph, std::size_t steps);

}  // namespace trainyard
