#pragma once

#include <functional>
#include <span>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A training step that keeps less of the forward pass for the backward pass and recomputes the rest (activation
/// recomputation).
///
/// A segment is a set of forward ops, which run in the forward pass as before. A backward op that reads a result of one
/// of them reads it from a copy of that op in the backward pass, "conv/again". The copy reads its inputs from other
/// copies if the same segment makes them. Other inputs are checkpoints, which stay in memory and are read as they are.
/// Backward ops also read checkpoints as they are; otherwise a pipeline stage would wait until the stage before it has
/// recomputed its results.
///
/// An op has no copy if the backward pass does not read it, not even through other ops, or if it holds weights
/// ("Variable"). Ops in `also` are the exception: they run again with the segment although nothing reads their copies,
/// as in frameworks that repeat the whole forward pass of a block, and the backward pass begins after them. Copies wait
/// for the gradients that enter the segment from the rest of the backward pass or, without any, for the segment's last
/// forward ops. If replicas gather weights (ZeRO 3), copies read them from the backward pass's own gather. This gather
/// then waits only until the segment's backward pass begins, as with FSDP(checkpoint(block)).
///
/// T. Chen, B. Xu, C. Zhang, C. Guestrin: Training deep nets with sublinear memory cost. arXiv 1604.06174, 2016.
struct RecomputingGraph {
  Graph graph;
  IdMap<OpId, OpId> original{};
};
/// Suffix of a copy and of the tensors that it makes.
inline constexpr const char* kAgain = "/again";
/// Segments, with `also` (by segment; empty: none), must be disjoint sets of forward ops. Otherwise recompute() and
/// repeated_ops() throw InputError ("unknown-op", "recompute"). recompute() also throws "too-large" if its copies would
/// wait for too many ops.
RecomputingGraph recompute(const Graph& graph, std::span<const std::vector<OpId>> segments,
                           std::span<const std::vector<OpId>> also = {});
/// The ops that recompute() copies and, by segment, the ops that its copies wait for.
struct RepeatedOps {
  IdMap<OpId, bool> has_copy;
  std::vector<std::vector<OpId>> triggers;
};
RepeatedOps repeated_ops(const Graph& graph, std::span<const std::vector<OpId>> segments);

/// Removes from a segment the ops whose results are read by backward ops for which `own` is false. These results stay
/// in memory, as frameworks keep the results of a module, so that no op after the segment waits for its copies.
void leave_results(const Graph& graph, std::vector<OpId>& segment, const std::function<bool(OpId)>& own);

/// The forward ops that make arrays with a score for each pair of positions. Around each softmax of four dimensions,
/// these are the product that its scores come from and all ops between that product and the next one. Their arrays are
/// most of what a transformer keeps for the backward pass, and cheap to recompute (V. Korthikanti et al.: Reducing
/// Activation Recomputation in Large Transformer Models. MLSys 2023, section 5: selective recomputation).
IdMap<OpId, bool> attention_scores(const Graph& graph);

}  // namespace trainyard
