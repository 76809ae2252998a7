#pragma once

#include <functional>

#include "trainyard/place/talos/packs.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct TalosOptions {
  /// The cost of a pack on a device. With wt = how long the device is still busy with what was decided before, ct = the
  /// longest transfer of what it reads from other devices, et = its own time there:
  ///
  ///     added    wt + ct + et, what it adds to the completion of its model
  ///     literal  the paper's: 0 where wt + ct + et <= maxPt, else wt + ct + et - maxPt, maxPt being the longest time
  ///              (on its slowest device) of the model's other packs that are ready now
  enum class Cost { added, literal } cost = Cost::added;
  PackOptions packs = {};
  bool packing = true;
  /// Whether models run together all at once, or in pairs that go well together (model_affinity above
  /// kCoPlacedAffinity, the highest first), one pair after the other, then the others one by one; the shortest first.
  enum class Together { all, pairs } together = Together::all;
  std::function<bool()> stop = {};  // asked all the time: throws OutOfTime, once it has a plan ends with that
};

inline constexpr double kCoPlacedAffinity = 0.4;

/// Talos: several models at once, such that the sum of their completion times is small (one model: its makespan).
///
/// Ops are packed (pack_ops). Then, whenever something ends: the ready packs and the devices are the two sides of a
/// minimum-cost flow, source -> model -> pack -> device -> sink; a device takes what it is to run next, if no more than
/// one pack is decided for it and not done. A further place on a device costs what the shortest ready pack takes there,
/// so that a pack rather waits for the device on which it is fast than taking one that is slow for it; what got such
/// a place waits. Of several for one next place, the shortest goes first, then the one with the longest chain behind
/// it, then the lower id. At most 32 ready packs are looked at at once, model by model in turn.
///
/// The paper solves the flow once per level of the graph with whole resource units per op; deciding at each end with
/// one op at a time keeps the flow integral and gives the paper's own example (12.5, 11.5, 9.0).
///
/// The schedule keeps the order of the plan, by rank, by start or strict, that gives the least sum of completion times
/// in simulation, bytes beyond the capacities first; memory is counted on as list_schedule() does.
Schedule talos(const Problem& problem, const TalosOptions& options = {});

/// Average-speedup-based whole-model scheduling: models by descending average speedup (model_speedups) take devices by
/// descending speed, contiguously, those that speedups are of before those that they are relative to; each model as a
/// whole on one device, one op after the other in topological order. Ops that cannot run there, or whose memory is not
/// there, go where they would finish first. Throws OutOfTime once `stop` says so.
Schedule place_whole_models(const Problem& problem, const std::function<bool()>& stop = {});

/// Throughput-first sharing, as in the paper's example: ready ops first come, first served; an op starts as soon as any
/// device is idle, of the idle ones on that where it is fastest (ties: a device that is no CPU, then the lower id).
/// Throws OutOfTime once `stop` says so.
Schedule place_first_come(const Problem& problem, const std::function<bool()>& stop = {});

}  // namespace trainyard
