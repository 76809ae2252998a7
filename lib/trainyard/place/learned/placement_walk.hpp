#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/place/learned/placement_task.hpp"
#include "trainyard/simulate/delta.hpp"

namespace trainyard::learned {

/// A placement that changes group by group, and what each change saves, simulated. Passes the task's checkpoint.
class PlacementWalk {
 public:
  PlacementWalk(const PlacementTask& task, const Devices& start);

  /// What PlacementCosts::cost() gives for the placement.
  double cost() const { return now_; }
  void move(std::uint32_t group, std::uint32_t device);
  /// By how much the cost would be less with the group on the device, as a share of the cost now: at least -kMostLoss,
  /// where the simulation ends. Moves that gain nothing have no penalty for memory.
  double gain(std::uint32_t group, std::uint32_t device);
  /// Number of gains that were simulated.
  std::size_t looks() const { return looks_; }

  static constexpr double kMostLoss = 0.002;

 private:
  double run_cost();

  const PlacementTask& task_;
  DeltaSimulation run_;
  Devices devices_;
  double now_ = 0;
  std::size_t looks_ = 0;
};

}  // namespace trainyard::learned
