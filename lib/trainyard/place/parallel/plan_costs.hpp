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
#include "trainyard/rewrite/expert_use.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard {

struct RepeatedSegments;
struct TensorParallelGraph;

/// A training step as a chain of layers for plans to divide (PlanCosts). A link of the chain is a block of layers
/// (block_of), in the order of their first forward ops. Costs are those of the problem's ops for a share of the batch,
/// each on the slowest of the devices that a stage occupies.
///
///     a layer's times      the sum of its ops' durations on a rank (tensor_parallel): forward; backward, with the ops
///                          that make weight gradients alone; additions of these over microbatches; and the collectives
///                          of its ranks, also of those that share a sequence (ContextUse)
///     slices               their number times the longer of a slice's ops and its ranks' communication, in either pass
///     bytes                tensors that cross from earlier blocks or to later ones; the bytes that MemoryLedger counts
///                          as held; parameters and state; tensors that the backward pass makes and reads again, one op
///                          at a time
///     links                MeshTimes
///     update               the blocks' update ops, divided among shards, each of which launches them all
///
/// This is an estimate, used to choose plans before they are simulated. A head that shares its weights with the
/// embedding is in the last block, and the weights are copied if stages divide the two (tie_copies). Contention for
/// links is not modelled. Overlap is modelled for slices only, and for gradient sums with the backward pass if there is
/// one stage.
class ChainOfBlocks {
 public:
  /// `batch`: samples of a step, which the graph does not tell. Keeps references to the problem and the layers.
  ChainOfBlocks(const Problem& problem, const Layers& layers, std::vector<DeviceId> devices, std::size_t batch,
                MeshTimes::HasRings has_rings = {});

  /// Names of the blocks, in order: the first layer's name of each, up to the first "/".
  const std::vector<std::string>& names() const { return names_; }
  /// Costs of plans, including any tensor degrees of the plan `asked`, also across hosts. The object must outlive them.
  /// own_costs() leaves out the costs of links, which take work linear in the number of devices.
  PlanCosts costs(const ParallelPlan& asked = {});
  PlanCosts own_costs(const ParallelPlan& asked);
  /// Lower bounds for simulated plans (least_step): the costs of layers from plan_chain.hpp, op times on the fastest
  /// device, and the bytes on links.
  LeastCosts least_costs();
  /// The stage of each layer, if stages begin at these blocks.
  IdMap<LayerId, std::size_t> stages(const std::vector<std::size_t>& cuts) const;
  /// The recomputation of each layer according to the plan, which has it by stage.
  IdMap<LayerId, StageRecompute> recomputed(const ParallelPlan& plan) const;

 private:
  /// Communication of ranks, by block.
  struct Exchange {
    Nanoseconds forward{0}, backward{0};  // parts of LayerCost::forward and ::input_gradient
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
  /// One device for each distinct column of op times in a set of devices. An op's time is that on the slowest of them,
  /// or else the fastest, that can run it.
  struct Kind {
    std::vector<DeviceId> devices;
    bool slowest;

    /// kNever if none can run it.
    Nanoseconds time(const Problem& problem, OpId op) const;
    Nanoseconds time_anywhere(const Problem& problem, OpId op) const;
  };
  void find_kinds();  // one for each set of columns in a run of devices
  static IdMap<OpId, Nanoseconds> launches_of_updates(const Problem& problem, const Kind& kind, std::size_t parts);
  /// Exchanges of replicas that share a sequence or experts: the op that begins each, and its time.
  std::vector<std::pair<OpId, Nanoseconds>> exchanges_of_replicas(const Problem& share, LayerDegree degree,
                                                                  const detail::ExpertUse& experts) const;
  struct Apart;
  Apart apart_by_block(const Problem& share, const TensorParallelGraph& ranks, std::vector<LayerCost>& blocks) const;
  static Blocks in_slices(const Blocks& slice, std::size_t slices);
  /// Segments if all blocks, or these scores only, are recomputed as in plan_schedule.hpp.
  RepeatedSegments repeated(const TensorParallelGraph& ranks, const IdMap<OpId, bool>* scores) const;
  PlanCosts costs(const ParallelPlan& asked, bool least);
  /// Value of LeastCosts::read_forward_alone.
  std::optional<Bytes> read_forward_alone() const;
  /// Layer degrees for the search. Tensor ranks by which parameters can be shared: `tensor`, divisors of a host, and on
  /// a single host powers of two, small numbers and those that divide heads; each also with a shared sequence, if
  /// possible. Each of these is combined with ranks that share the sequence throughout (a power of two, any small
  /// number on a single host, or `context`), or with replicas that divide the experts.
  std::vector<LayerDegree> layer_degrees(std::set<std::size_t> tensor, std::size_t context) const;

  const Problem& problem_;
  const Layers& layers_;
  const std::vector<DeviceId> devices_;
  const std::size_t batch_;
  const MeshTimes times_;
  IdMap<LayerId, std::size_t> block_;
  std::size_t count_ = 0;
  std::vector<std::string> names_;
  std::vector<Kind> kinds_;  // the fastest of all devices; then the slowest of runs of them, if they differ
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>>
      kinds_from_;                                           // by first device: least length of the run, kind
  Memo<std::pair<std::size_t, LayerDegree>, Blocks> known_;  // by samples and ranks
  std::vector<double> update_per_byte_;                      // nanoseconds per byte of parameters, by kind
  double least_update_per_byte_ = 0;                         // the least of any block
};

}  // namespace trainyard
