#pragma once

#include <span>
#include <vector>

#include "trainyard/core/checkpoint.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Throws InputError ("too-large") where the rewrite, which splits no op, would make more than may be made of the graph
/// (core/limits.hpp); apply_rewrites does so for all of its rewrites together.
void check_size(const Graph& graph, const Rewrite& rewrite);

/// The graph after these rewrites, one after the other; ops are named as they are by then. Consecutive Recompute are
/// the segments of one recomputation, and consecutive Offload one set of tensors. Throws InputError with the pointer
/// "/splits/N" (the key of schedule files): "unknown-op" (with the nearest name), "unsplittable", "recompute" (an op
/// outside the forward pass, or named twice), "too-large", and what data_parallel() and offload() throw; OutOfTime
/// where the checkpoint does, which it passes before each rewrite, and for each op of replicas and of a graph with
/// splits.
Graph apply_rewrites(const Graph& graph, std::span<const Rewrite> rewrites, Checkpoint checkpoint = Checkpoint{});

/// The problem of the rewritten graph, which remembers the rewrites after its own. Without any it is the problem
/// itself. Throws as the above and as the constructor of Problem do.
Problem apply_rewrites(const Problem& problem, const std::vector<Rewrite>& rewrites,
                       Checkpoint checkpoint = Checkpoint{});

/// The problem that the schedule places: `problem` itself where the schedule has no rewrites, or those that the problem
/// has already; else `problem` with the schedule's rewrites applied. Throws as apply_rewrites, and InputError
/// ("other-rewrites") where the problem has other rewrites.
Problem scheduled_problem(const Problem& problem, const Schedule& schedule, Checkpoint checkpoint = Checkpoint{});

}  // namespace trainyard
