#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// A training step in stages, each on a mesh of its own: d replicas, among which its batch is divided, of t ranks,
/// which share the features of its layers. Stage by stage its ops are what tensor_parallel() and data_parallel() make
/// of them: "conv^2@3" of rank 1 and replica 2, without a mark where there is one. Gradients are added among the
/// replicas of a stage; what an update of another stage reads of them (tie_copies) is sent to it as that sum, which
/// ZeRO leaves whole.
///
/// First all stages are divided into their ranks, equally many or not: a tensor from one stage to another is whole on
/// each rank, and rank k reads that of rank k modulo the other's number. Then each into its replicas. With A replicas
/// before a cut and B behind it, of which n is the least common multiple,
///
///     before  the tensor of each replica is seen as n/A equal parts              "TENSOR@1/to-1/parts@1"
///     behind  n/B of them are seen as one, those of the samples of its replica   "TENSOR@2/from-0"
///
/// neither of which takes time; where A and B are equal, replicas read their like. What is not divided among replicas
/// (an update's, or 8 bytes) is read of the first replica that has samples in common. `after` an op of another stage
/// is after its copies that have.
///
/// As plans of L. Zheng et al.: Alpa: automating inter- and intra-operator parallelism for distributed deep learning.
/// OSDI 2022, section 5 (whose resharding between meshes it is, for tensors that are divided along the batch).
struct StageMeshGraph {
  Graph graph;
  IdMap<OpId, std::size_t> stage{}, replica{}, rank{};  // from 0
  IdMap<OpId, OpId> original{};                         // as of data_parallel() and tensor_parallel()
  std::shared_ptr<const Graph> ranks{};                 // of ranks, before replicas
};
/// `before` is called with each graph and the rewrite that it is about to undergo, and may throw. Throws InputError:
/// "stages": an op in no stage or in two, a stage without ops or degrees, gradients of parameters that another stage
/// reads before its update; "unknown-op"; those of data_parallel().
StageMeshGraph stage_meshes(const Graph& graph, const StageMeshes& meshes,
                            const std::function<void(const Graph&, const Rewrite&)>& before = {});

}  // namespace trainyard
