#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainyard/learn/reachability.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/learned/group_features.hpp"
#include "trainyard/place/learned/grouping.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/rewrite/merge_colocate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::learned {

/// Device of each group, by number.
using Devices = std::vector<std::uint32_t>;

/// A problem as a learned placer sees it: ops merged into groups (rewrite/merge_colocate.hpp), which are visited in
/// topological order of their first ops.
///
/// `stop` may end any work on a task, from any thread: each decision, simulation and gradient passes the checkpoint.
struct PlacementTask {
  /// Throws OutOfTime if `stop` returns true before a start is known.
  explicit PlacementTask(const Problem& problem, const Grouping& grouping = {}, std::function<bool()> stop = {});

  /// Throws OutOfTime once `stop` returns true.
  void checkpoint() const {
    if (stop && stop()) throw OutOfTime{};
  }

  std::size_t size() const { return groups.ops.size(); }
  std::size_t devices() const { return problem.device_count(); }
  Placement placement(const Devices& devices) const;
  /// The device of each group on which its ops spend most of their time.
  Devices devices_of(const Placement& placement) const;
  std::span<const std::uint8_t> allowed(std::size_t group) const {
    return std::span{may_run}.subspan(group * devices(), devices());
  }

  Problem problem;
  std::function<bool()> stop;
  OpGroups groups;
  learn::RowLists parents, children;  // groups that send to, and receive from, each group
  /// Time of the transfers between each group and each of its parents and children, over the time of all its transfers
  /// plus its run time.
  std::vector<std::vector<double>> from_parents, to_children;
  std::vector<std::vector<double>> parent_times;  // ns: transfers from each parent
  std::vector<double> load;                       // run time of each group, over each device's share of an even split
  std::vector<double> bytes;                      // upper bound on each group's memory: parameters, state, outputs
  learn::Reachability sets;
  learn::Matrix<double> features;     // group_features()
  std::vector<std::uint8_t> may_run;  // group x device
  bool may_exceed = false;            // some placements may not fit
  /// Start of an episode, and a placer's worst result: the best of everything on one device, ops dealt out in turn, and
  /// the expert's placement, as far as groups allow.
  Devices start;
  double start_cost = 0;
};

/// Penalty in ns: 2 ns for each byte beyond a device's capacity (the paper: 2 s per GB).
double memory_penalty(const PlacementTask& task, const MemoryPeaks& peaks);

/// Simulated step time in ns, plus the memory penalty. One per thread. Passes the task's checkpoint.
class PlacementCosts {
 public:
  explicit PlacementCosts(const PlacementTask& task);

  double cost(const Devices& devices);
  /// Costs on the way from `start` to `devices`, with one group moved after the other in `order`: order.size() + 1
  /// numbers, the first for the start.
  std::vector<double> costs_on_the_way(const Devices& start, const Devices& devices,
                                       std::span<const std::uint32_t> order);

 private:
  const PlacementTask* task_;
  Simulation simulation_;
};

}  // namespace trainyard::learned
