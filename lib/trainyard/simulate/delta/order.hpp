#pragma once

#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// The strict orders of all devices as linked lists, so that an op can be moved in constant time. Position::none()
/// marks the ends.
class DeltaOrder {
 public:
  DeltaOrder(const DenseProblem& problem, const Schedule& schedule);

  Position first(DeviceId device) const { return first_[device]; }
  Position before(Position op) const { return before_[op]; }
  Position after(Position op) const { return after_[op]; }

  void take_out(Position op, DeviceId device);
  /// Inserts the op right after `place`; none: at the front.
  void put(Position op, DeviceId device, Position place);

  /// Writes the order of one device in the form of a schedule.
  void write(const DenseProblem& problem, DeviceId device, std::vector<OpId>& order) const;

 private:
  IdMap<Position, Position> before_, after_;
  IdMap<DeviceId, Position> first_;
};

}  // namespace trainyard::detail
