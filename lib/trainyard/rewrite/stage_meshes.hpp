#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// A training step in pipeline stages, each on its own mesh: d replicas, among which its batch is divided, of t ranks,
/// which share the features of its layers. The ops of each stage are made by tensor_parallel() and data_parallel():
/// "conv^2@3" is that of rank 1 and replica 2. A mark is left out if there is only one rank or replica. Gradients are
/// reduced among the replicas of a stage. If an update of another stage reads them (tie_copies), it is sent that sum,
/// which ZeRO leaves whole.
///
/// First all stages are divided into their ranks, whose numbers may differ. A tensor from one stage to another is whole
/// on each rank; rank k reads that of rank k modulo the other stage's number of ranks. Then each stage is divided into
/// its replicas. With A replicas before a cut and B behind it, and n their least common multiple,
///
///     before  the tensor of each replica is divided into n/A equal parts   "TENSOR@1/to-1/parts@1"
///     behind  n/B parts are joined, those of the replica's samples         "TENSOR@2/from-0"
///
/// neither of which takes time. If A equals B, each replica reads from its counterpart. A tensor that is not divided
/// among replicas (an update's, or of at most 8 bytes) is read from the first replica that has samples in common. An op
/// with an op of another stage in its `after` comes after those of its copies that have samples in common.
///
/// As in plans of L. Zheng et al.: Alpa: automating inter- and intra-operator parallelism for distributed deep
/// learning. OSDI 2022, section 5. The transfers are its resharding between meshes, for tensors that are divided along
/// the batch.
struct StageMeshGraph {
  Graph graph;
  IdMap<OpId, std::size_t> stage{}, replica{}, rank{};  // from 0
  IdMap<OpId, OpId> original{};                         // as of data_parallel() and tensor_parallel()
  std::shared_ptr<const Graph> ranks{};                 // graph of ranks, before replication
};
/// `before` is called with each graph and the rewrite that is applied to it next, and may throw. Throws InputError:
/// "stages" (an op in no stage or in two; a stage without ops or devices; gradients of parameters that another stage
/// reads before its update); "unknown-op"; those of data_parallel().
StageMeshGraph stage_meshes(const Graph& graph, const StageMeshes& meshes,
                            const std::function<void(const Graph&, const Rewrite&)>& before = {});

}  // namespace trainyard
