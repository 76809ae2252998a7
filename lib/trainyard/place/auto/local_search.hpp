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

/// Simulated annealing over placements and orders; DeltaSimulation evaluates every change.
///
/// Only changes on the critical path can shorten the makespan, so three of four moves are read off it. A critical op
/// moves to another device, the two ends of a critical transfer onto one device, or the whole cluster of one of these
/// ops moves. Under policy `strict`, an op of a block (a run of critical ops that wait for the same device) moves to
/// the block's front or back, or the two first or last ops are swapped (Nowicki and Smutnicki 1996; Balas and
/// Vazacopoulos 1998). Under `priority`, an op, or the reader of a transfer, that waits for a device or a link goes
/// right before the one that holds it. The other moves are drawn from all ops. Kinds of moves that helped lately are
/// drawn more often (Ropke and Pisinger 2006). Layers are among the clusters, so a critical transfer between two layers
/// can move the boundary between two stages. A worse schedule is accepted with the Metropolis probability; the random
/// number is drawn first, so that it gives a limit at which the evaluation may stop.
///
/// If memory may bind, schedules are compared by excess (bytes beyond the capacities) first, and half of the moves from
/// a schedule with excess take ops off the fullest device. Once a schedule fits, the walk may exceed the capacities
/// again, at a price per byte that rises while it does and falls while it fits (strategic oscillation; Glover and Hao
/// 2011).
class LocalSearch {
 public:
  /// `start` may have any policy, which the search keeps.
  LocalSearch(const Problem& problem, const std::vector<Clusters>& levels, bool memory_binds, Schedule start,
              Random random);

  /// `heat`: the mean increase of the makespan that is accepted, as a share of makespan / number of critical ops.
  void run(const Effort& effort, double heat);
  /// Continues from another schedule.
  void restart(Schedule start);
  /// Restarts from `start` if it is better than the best schedule.
  void restart_if_better(Schedule start);
  /// Path relinking (Glover 1997): draws `steps` clusters and moves each to its device in the target, unless that
  /// lengthens the makespan by more than a twentieth or adds excess. This joins the good parts of one schedule with
  /// the rest of another.
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
  /// Makespan in ns plus price_ times the excess.
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
  double price_ = 0;  // ns per byte of excess; rises while the current schedule has excess, else falls

  // Critical path of a recent schedule, as read_path() found it.
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
    OpId holder, waiting;  // the reader, if a transfer waits
  };
  std::vector<Wait> waits_;  // on the critical path, for devices and channels; under priorities
  bool changed_since_path_ = true;
  std::uint64_t path_read_at_ = 0, path_interval_ = 1;

  std::array<double, kKinds> weight_{};
  std::vector<OpId> moving_;
  std::vector<DeviceId> choices_;
  std::vector<Bytes> at_most_;  // bytes held, by device: an upper bound or the simulated peak
};

}  // namespace trainyard
