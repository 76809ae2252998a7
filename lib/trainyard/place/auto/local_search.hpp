#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/place/auto/clusters.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/delta.hpp"

namespace trainyard {

/// Simulated annealing over placements and orders, every change evaluated by DeltaSimulation.
///
/// Only what lies on the critical path can shorten the makespan, so seven of ten moves are read off it: a critical op
/// to another device, the two ends of a critical transfer onto one device, whole clusters of either, and under policy
/// `strict` ops at the ends of a block (a run of critical ops that wait for the same device) before or behind it, or
/// swapped (Nowicki and Smutnicki 1996; Balas and Vazacopoulos 1998), under `priority` an op, or the reader of a
/// transfer, that waits for a device or a link right before the one that holds it. The others are taken anywhere. Kinds
/// of moves that helped lately are drawn more often (Ropke and Pisinger 2006). Among clusters are the layers, so that a
/// critical transfer between two layers moves the boundary between two stages. A change for the worse is taken with the
/// probability of Metropolis; since it is drawn first, it gives the limit at which the evaluation may stop.
///
/// Where memory may bind, schedules are compared by bytes beyond the capacities first; a schedule beyond them moves
/// what it can off the full devices. Once one fits, the walk may pass beyond the capacities again, at a price per byte
/// that rises as long as it is there, and falls as long as it fits (strategic oscillation; Glover and Hao 2011).
class LocalSearch {
 public:
  /// A schedule of any policy, which stays the same.
  LocalSearch(const Problem& problem, const std::vector<Clusters>& levels, bool memory_binds, Schedule start,
              Random random);

  /// `heat`: how much worse a change may be that is taken, as a share of the makespan, on average.
  void run(const Effort& effort, double heat);
  /// Goes on from another schedule.
  void restart(Schedule start);
  /// Restarts from `start` where it is better than the best.
  void restart_if_better(Schedule start);
  /// Walks towards another placement, cluster by cluster, as long as no step costs more than a twentieth (path
  /// relinking; Glover 1997): what one schedule does well in a part of the graph comes together with the rest of
  /// another.
  void relink(const Placement& target, std::size_t steps);

  const Schedule& best() const { return best_; }
  const Outcome& best_outcome() const { return best_outcome_; }
  std::uint64_t evaluations() const { return evaluations_; }

 private:
  enum Kind : std::uint8_t {
    op_away,
    transfer_home,
    cluster_away,
    block_swap,
    block_shift,
    turn,
    anywhere,
    relieve,
    kKinds
  };

  bool propose(double slack);
  /// The makespan in ns, and what memory beyond the capacities costs by its present price.
  double cost_of(const Outcome& outcome) const;
  DeltaResult try_move(Kind kind, Nanoseconds limit, bool& tried);
  bool move_cluster(std::size_t level, OpId op, std::optional<DeviceId> to, Nanoseconds limit, DeltaResult& result);
  bool try_block(Kind kind, Nanoseconds limit, DeltaResult& result);
  bool try_turn(Nanoseconds limit, DeltaResult& result);
  DeviceId likely_device(OpId op);
  void read_path();
  Kind draw_kind();
  Outcome outcome_of(const DeltaResult& result);
  Bytes present_excess();

  const Problem& problem_;
  const std::vector<Clusters>& levels_;
  bool memory_binds_;
  Random random_;
  DeltaSimulation delta_;
  Outcome current_;
  Schedule best_;
  Outcome best_outcome_;
  std::uint64_t evaluations_ = 0;
  double price_ = 0;  // ns of a byte beyond the capacities: rises while the current schedule is beyond, else falls

  // The critical path of a schedule that was current a little while ago.
  struct Block {
    std::size_t first, last;  // indices into critical_ops_, both included
  };
  std::vector<OpId> critical_ops_;
  std::vector<Block> blocks_;
  struct CriticalTransfer {
    OpId producer, consumer;
  };
  std::vector<CriticalTransfer> critical_transfers_;
  struct Wait {
    OpId holder, waiting;  // for a transfer, the op that reads it
  };
  std::vector<Wait> waits_;  // for devices and channels, under priorities
  bool changed_since_path_ = true;
  std::uint64_t path_read_at_ = 0, path_interval_ = 1;

  std::array<double, kKinds> weight_{};
  std::vector<OpId> moving_;
  std::vector<DeviceId> choices_;
  std::vector<Bytes> at_most_;  // held by each device
};

}  // namespace trainyard
