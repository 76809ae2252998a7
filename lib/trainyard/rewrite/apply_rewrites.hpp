#pragma once

#include <span>
#include <vector>

#include "trainyard/core/checkpoint.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Throws InputError ("too-large") if the rewrite would make the graph larger than the limits allow (core/limits.hpp).
/// `rewrite` must not be a SplitOp. apply_rewrites() checks the limits for all of its rewrites together.
void check_size(const Graph& graph, const Rewrite& rewrite);

/// The graph after these rewrites, applied in order. Each rewrite refers to ops by the names that they have when it is
/// applied. Consecutive Recompute rewrites are the segments of one recomputation, and consecutive Offload rewrites one
/// set of tensors. Throws InputError with the pointer "/splits/N" (the key of schedule files): "unknown-op" (with the
/// nearest name), "unsplittable", "recompute" (an op outside the forward pass, or named twice), "too-large", and what
/// data_parallel(), stage_meshes(), offload() and tie_copies() throw. Throws OutOfTime if the checkpoint does, which is
/// passed before each rewrite, and for each op of replicas and of a graph with splits.
Graph apply_rewrites(const Graph& graph, std::span<const Rewrite> rewrites, Checkpoint checkpoint = Checkpoint{});

/// The problem of the rewritten graph, which records `rewrites` after its own. Without rewrites it is the problem
/// itself. Throws as apply_rewrites() of a graph and as the constructor of Problem do.
Problem apply_rewrites(const Problem& problem, const std::vector<Rewrite>& rewrites,
                       Checkpoint checkpoint = Checkpoint{});

/// The problem that the schedule places. It is `problem` if the schedule has no rewrites, or exactly those of the
/// problem; otherwise `problem` with the schedule's rewrites applied. Throws as apply_rewrites(), and InputError
/// ("other-rewrites") if the problem already has other rewrites.
Problem scheduled_problem(const Problem& problem, const Schedule& schedule, Checkpoint checkpoint = Checkpoint{});

}  // namespace trainyard
