#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/place/learned/placement_task.hpp"
#include "trainyard/simulate/delta.hpp"

namespace trainyard::learned {

/// A placement that changes group by group, with the simulated gain of each change. Passes the task's checkpoint.
class PlacementWalk {
 public:
  PlacementWalk(const PlacementTask& task, const Devices& start);

  /// Cost of the current placement, equal to PlacementCosts::cost().
  double cost() const { return now_; }
  void move(std::uint32_t group, std::uint32_t device);
  /// Decrease of the cost if the group were on the device, as a share of the current cost. It is at least -kMostLoss,
  /// at which the simulation ends. Moves without a gain have no memory penalty.
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
