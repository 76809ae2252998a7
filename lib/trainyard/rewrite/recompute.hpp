#pragma once

#include <functional>
#include <span>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A training step that keeps less of the forward pass for the backward pass, and computes it again.
///
/// Each segment, a set of forward ops, runs in the forward pass as before; but backward ops that read what one of them
/// made read it from a copy of that op, "conv/again" in the backward pass. The copy reads the op's inputs: from copies
/// where the same segment makes them, else (the checkpoint, which stays) as they are; so do the backward ops that read
/// a checkpoint, or a stage of a pipeline would wait until the one before it has computed again what it has. Ops of
/// which the backward pass reads nothing, not even through others, have no copy. The copies wait for the gradients that
/// come into the segment from the rest of the backward pass; where none do, for the segment's last forward ops. What
/// holds weights ("Variable") has no copy. Copies read weights that replicas gather (ZeRO 3) from the backward pass's
/// own gather, which waits only until the segment's backward pass begins, as with FSDP(checkpoint(block)).
///
/// T. Chen, B. Xu, C. Zhang, C. Guestrin: Training deep nets with sublinear memory cost. arXiv 1604.06174, 2016.
struct RecomputingGraph {
  Graph graph;
  IdMap<OpId, OpId> original{};
};
/// Suffix of a copy and of what it makes.
inline constexpr const char* kAgain = "/again";
/// Segments are disjoint, their ops of phase forward: else both throw InputError ("unknown-op", "recompute").
RecomputingGraph recompute(const Graph& graph, std::span<const std::vector<OpId>> segments);
/// Which ops have a copy there, and by segment what all its copies wait for.
struct RepeatedOps {
  IdMap<OpId, bool> has_copy;
  std::vector<std::vector<OpId>> triggers;
};
RepeatedOps repeated_ops(const Graph& graph, std::span<const std::vector<OpId>> segments);

/// Leaves out of a segment the ops whose results backward ops read that are not its `own`. These results stay, as
/// frameworks keep what a module hands on: no op behind the segment waits for its copies.
void leave_results(const Graph& graph, std::vector<OpId>& segment, const std::function<bool(OpId)>& own);

/// The forward ops that make arrays of a score for each pair of positions: around each softmax of four dimensions, the
/// product that its scores come from and all ops between that product and the next, but for the next. Their arrays are
/// most of what a transformer keeps for the backward pass, and cheap to compute again (V. Korthikanti et al.: Reducing
/// Activation Recomputation in Large Transformer Models. MLSys 2023, section 5: selective recomputation).
IdMap<OpId, bool> attention_scores(const Graph& graph);

}  // namespace trainyard
