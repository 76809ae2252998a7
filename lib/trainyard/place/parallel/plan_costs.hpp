#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/memo.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/parallel/mesh_times.hpp"
#include "trainyard/plan/least_step.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard {

struct RepeatedSegments;
struct TensorParallelGraph;

/// A training step as a chain of layers that plans divide (PlanCosts), as placers see it: a link of the chain is a
/// block of layers (block_of), in the order of their first forward ops; costs are those of the problem's ops for a
/// share of the batch, of each on the slowest of the devices that a stage occupies.
///
///     a layer's times      the sum of its ops' durations on a rank (tensor_parallel): forward, backward, and those of
///                          the latter that make gradients of weights alone, and of adding these up over microbatches;
///                          and of its ranks' collectives, also of those that share a sequence (ContextUse)
///     of slices            as many times the larger of what a slice's ops take and what its ranks communicate, in
///                          either pass
///     bytes                tensors that cross from earlier blocks or to later ones; what MemoryLedger counts as held;
///                          parameters and state; what the backward pass makes and reads again, one op at a time
///     links                MeshTimes
///     update               the blocks' update ops, divided among shards, each of which launches them all
///
/// An estimate, by which plans are chosen before they are simulated: it has a head whose weights are the embedding's in
/// the last block, and copies of them where stages divide the two (tie_copies); it knows no contention for links, and
/// of overlap only that of slices, and of gradients' sums with the backward pass where there is one stage.
class ChainOfBlocks {
 public:
  /// `batch` samples; the graph does not say. Keeps a reference to the problem and the layers.
  ChainOfBlocks(const Problem& problem, const Layers& layers, std::vector<DeviceId> devices, std::size_t batch,
                MeshTimes::HasRings has_rings = {});

  /// Names of the blocks, in order: the first layer's name of each, up to the first "/".
  const std::vector<std::string>& names() const { return names_; }
  /// The object must outlive them; of its own without what links cost, which is as much work as there are devices, and
  /// with the tensor degrees of the plan that is asked for, which may be any, and reach over hosts.
  PlanCosts costs(const ParallelPlan& asked = {});
  PlanCosts own_costs(const ParallelPlan& asked);
  /// What simulated plans are not below (least_step): of a layer what plan_chain.hpp finds, the time of its ops on the
  /// fastest device, and of links their bytes.
  LeastCosts least_costs();
  /// The stage of each layer, where stages begin at these blocks.
  IdMap<LayerId, std::size_t> stages(const std::vector<std::size_t>& cuts) const;
  /// What each layer computes again; the plan says it of all stages.
  IdMap<LayerId, StageRecompute> recomputed(const ParallelPlan& plan) const;

 private:
  /// By block.
  struct Exchange {
    Nanoseconds forward{0}, backward{0};  // of LayerCost::forward and ::input_gradient, what ranks communicate
  };
  struct Blocks {
    std::vector<std::vector<LayerCost>> likely;  // by kind
    std::vector<LayerCost> least;
    std::vector<Exchange> exchanges;
    std::vector<LeastWork> work;
  };
  const Blocks& blocks(std::size_t samples, LayerDegree tensor);
  void prepare(const std::set<std::pair<std::size_t, LayerDegree>>& asked, unsigned threads);
  Blocks costs_of(std::size_t samples, LayerDegree degree) const;
  /// Devices of different times, one of each, and what an op takes on the slowest, or the fastest, that can run it.
  struct Kind {
    std::vector<DeviceId> devices;
    bool slowest;

    /// kNever where none can run it.
    Nanoseconds time(const Problem& problem, OpId op) const;
    Nanoseconds time_anywhere(const Problem& problem, OpId op) const;
  };
  void find_kinds();  // of runs of devices, by the columns that they have
  static IdMap<OpId, Nanoseconds> launches_of_updates(const Problem& problem, const Kind& kind, std::size_t parts);
  struct Apart;
  Apart apart_by_block(const Problem& share, const TensorParallelGraph& ranks, std::vector<LayerCost>& blocks) const;
  static Blocks in_slices(const Blocks& slice, std::size_t slices);
  /// By recomputation of all blocks, or of these scores alone, as plan_schedule.hpp has it.
  RepeatedSegments repeated(const TensorParallelGraph& ranks, const IdMap<OpId, bool>* scores) const;
  PlanCosts costs(const ParallelPlan& asked, bool least);
  /// LeastCosts::read_forward_alone.
  std::optional<Bytes> read_forward_alone() const;
  /// Tensor ranks by which parameters are shared: `tensor`, and powers of two within a host; where there is one, the
  /// sequence too; with each of these as many ranks that share it throughout, a power of two or `context`, or any
  /// number of replicas that experts divide among.
  std::vector<LayerDegree> layer_degrees(std::set<std::size_t> tensor, std::size_t context) const;

  const Problem& problem_;
  const Layers& layers_;
  const std::vector<DeviceId> devices_;
  const std::size_t batch_;
  const MeshTimes times_;
  IdMap<LayerId, std::size_t> block_;
  std::size_t count_ = 0;
  std::vector<std::string> names_;
  std::vector<Kind> kinds_;  // all devices, the fastest; then of runs of them the slowest, if they differ
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>>
      kinds_from_;                                           // by device: of so many from it on, or more
  Memo<std::pair<std::size_t, LayerDegree>, Blocks> known_;  // by samples and ranks
  std::vector<double> update_per_byte_;                      // of parameters, nanoseconds, by kind
  double least_update_per_byte_ = 0;                         // of any block
};

}  // namespace trainyard
