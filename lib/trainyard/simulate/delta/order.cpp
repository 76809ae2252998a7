#include "trainyard/simulate/delta/order.hpp"

namespace trainyard::detail {

DeltaOrder::DeltaOrder(const DenseProblem& problem, const Schedule& schedule) : first_(problem.devices) {
  if (schedule.policy != Policy::strict) return;
  before_.resize(problem.ops);
  after_.resize(problem.ops);
  for (const DeviceId device : problem.problem.devices()) {
    Position last;
    for (const OpId id : schedule.order[device]) {
      const Position op = problem.position(id);
      put(op, device, last);
      last = op;
    }
  }
}

void DeltaOrder::take_out(Position op, DeviceId device) {
  const Position before = before_[op], after = after_[op];
  (before.is_none() ? first_[device] : after_[before]) = after;
  if (!after.is_none()) before_[after] = before;
}

void DeltaOrder::put(Position op, DeviceId device, Position place) {
  Position& link = place.is_none() ? first_[device] : after_[place];
  before_[op] = place;
  after_[op] = link;
  if (!link.is_none()) before_[link] = op;
  link = op;
}

void DeltaOrder::write(const DenseProblem& problem, DeviceId device, std::vector<OpId>& order) const {
  order.clear();
  for (Position op = first_[device]; !op.is_none(); op = after_[op]) order.push_back(problem.op_id(op));
}

}  // namespace trainyard::detail
