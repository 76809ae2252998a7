#pragma once

#include <functional>

#include "trainyard/place/talos/packs.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct TalosOptions {
  /// Cost of a pack on a device. wt is how long the device is still busy with earlier decisions, ct the longest
  /// transfer of a tensor that the pack reads from another device, et the pack's own time on the device:
  ///
  ///     added    wt + ct + et, what the pack adds to the completion of its model
  ///     literal  the paper's: 0 if wt + ct + et <= maxPt, else wt + ct + et - maxPt, with maxPt the longest time (on
  ///              its slowest device) of the model's other packs that are ready now
  enum class Cost { added, literal } cost = Cost::added;
  PackOptions packs = {};
  bool packing = true;
  /// Whether all models run together, or in turns: pairs of high affinity (model_affinity above kCoPlacedAffinity, the
  /// highest first), and the remaining models one by one. The shortest turn is first.
  enum class Together { all, pairs } together = Together::all;
  std::function<bool()> stop = {};  // polled throughout: throws OutOfTime, or returns the plan if there is one
};

inline constexpr double kCoPlacedAffinity = 0.4;

/// Talos: places several models at once such that the sum of their completion times is small (for one model, its
/// makespan).
///
/// Ops are packed (pack_ops). Whenever a pack ends, a minimum-cost flow source -> model -> pack -> device -> sink
/// assigns ready packs to devices. A device takes the pack that it is to run next if at most one pack decided for it
/// has not ended. A further place on a device costs the time of the shortest ready pack there, so that a pack waits for
/// the device on which it is fast instead of taking one on which it is slow. Packs that get such a place wait. Among
/// several packs for one next place, the shortest goes first, then the one with the longest chain after it, then the
/// lower id. A flow has at most 32 ready packs, taken from the models in turn.
///
/// The paper solves the flow once per level of the graph, with whole resource units per op. Deciding one pack per
/// device at each end keeps the flow integral, and gives the paper's own example (12.5, 11.5, 9.0).
///
/// The schedule has the order of the plan (by rank, by start, or strict) with the least sum of completion times in
/// simulation, after the bytes over the capacities. Memory is treated as in list_schedule().
Schedule talos(const Problem& problem, const TalosOptions& options = {});

/// Average-speedup-based whole-model scheduling. Models by descending average speedup (model_speedups) are assigned
/// contiguously to devices by descending speed, those of the reference last. Each model is on one device, one op after
/// the other in topological order. Ops that the device cannot run, or has no memory for, go where they would finish
/// first. Throws OutOfTime once `stop` returns true.
Schedule place_whole_models(const Problem& problem, const std::function<bool()>& stop = {});

/// Throughput-first sharing, as in the paper's example. Ready ops are served first come, first served: an op starts as
/// soon as any device is idle, on the idle device where it is fastest (ties: CPUs last, then the lower id). Throws
/// OutOfTime once `stop` returns true.
Schedule place_first_come(const Problem& problem, const std::function<bool()>& stop = {});

}  // namespace trainyard
