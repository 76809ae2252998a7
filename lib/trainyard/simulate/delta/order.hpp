#pragma once

#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// The strict orders of all devices as lists, so that an op changes its place at no cost. Nobody is Position::none().
class DeltaOrder {
 public:
  DeltaOrder(const DenseProblem& problem, const Schedule& schedule);

  Position first(DeviceId device) const { return first_[device]; }
  Position before(Position op) const { return before_[op]; }
  Position after(Position op) const { return after_[op]; }

  void take_out(Position op, DeviceId device);
  /// Right after `place`; none: first.
  void put(Position op, DeviceId device, Position place);

  /// One device's order, as schedules have it.
  void write(const DenseProblem& problem, DeviceId device, std::vector<OpId>& order) const;

 private:
  IdMap<Position, Position> before_, after_;
  IdMap<DeviceId, Position> first_;
};

}  // namespace trainyard::detail
