#include "trainyard/simulate/delta_order.hpp"

namespace trainyard::detail {

DeltaOrder::DeltaOrder(const DenseProblem& problem, const Schedule& schedule) : first_(problem.devices, kNobody) {
  if (schedule.policy != Policy::strict) return;
  before_.assign(problem.ops, kNobody);
  after_.assign(problem.ops, kNobody);
  for (std::uint32_t device = 0; device < problem.devices; ++device) {
    std::uint32_t last = kNobody;
    for (const OpId id : schedule.order[DeviceId{device}]) {
      const std::uint32_t op = problem.position(id.index());
      put(op, device, last);
      last = op;
    }
  }
}

void DeltaOrder::take_out(std::uint32_t op, std::uint32_t device) {
  const std::uint32_t before = before_[op], after = after_[op];
  (before == kNobody ? first_[device] : after_[before]) = after;
  if (after != kNobody) before_[after] = before;
}

void DeltaOrder::put(std::uint32_t op, std::uint32_t device, std::uint32_t place) {
  std::uint32_t& link = place == kNobody ? first_[device] : after_[place];
  before_[op] = place;
  after_[op] = link;
  if (link != kNobody) before_[link] = op;
  link = op;
}

void DeltaOrder::write(const DenseProblem& problem, std::uint32_t device, std::vector<OpId>& order) const {
  order.clear();
  for (std::uint32_t op = first_[device]; op != kNobody; op = after_[op]) order.emplace_back(problem.op_id(op));
}

}  // namespace trainyard::detail
