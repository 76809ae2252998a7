#include "trainyard/place/exact/realize.hpp"

#include <algorithm>
#include <utility>

namespace trainyard::detail {

Realization::Realization(const ExactModel& model, SearchState& state)
    : model_(model), state_(state), simulation_(model.problem), position_(model.ops) {
  for (std::uint32_t i = 0; i < model.ops; ++i) position_[model.order[i]] = i;
  for (Schedule* schedule : {&strict_, &priority_}) schedule->placement = Placement(model.ops, DeviceId{0});
  strict_.policy = Policy::strict;
  priority_.policy = Policy::priority;
  priority_.priority = IdMap<OpId, double>(model.ops, 0);
}

void Realization::place(Schedule& schedule, const std::vector<std::uint32_t>& device) const {
  for (std::size_t op = 0; op < model_.ops; ++op) schedule.placement[OpId{op}] = DeviceId{device[op]};
}

std::int64_t Realization::try_schedule(const Schedule& schedule) {
  Nanoseconds makespan = simulation_.makespan(schedule);
  if (makespan.count >= state_.limit) return makespan.count;
  if (model_.limited && !simulation_.peaks(schedule).fits) return kLongestTime.count;
  best_ = schedule;
  state_.limit = makespan.count;
  return makespan.count;
}

std::int64_t Realization::try_priority(const std::vector<std::uint32_t>& device,
                                       const std::vector<std::uint32_t>& order) {
  place(priority_, device);
  for (std::size_t i = 0; i < order.size(); ++i)
    priority_.priority[OpId{order[i]}] = static_cast<double>(order.size() - i);
  return try_schedule(priority_);
}

std::int64_t Realization::try_strict(const std::vector<std::uint32_t>& device,
                                     const std::vector<std::uint32_t>& order) {
  place(strict_, device);
  strict_.order.assign(model_.devices, {});
  for (const std::uint32_t op : order) strict_.order[DeviceId{device[op]}].push_back(OpId{op});
  return try_schedule(strict_);
}

std::int64_t Realization::try_order(const std::vector<std::uint32_t>& device, const std::vector<std::int64_t>& start) {
  order_.resize(model_.ops);
  for (std::uint32_t op = 0; op < model_.ops; ++op) order_[op] = op;
  std::ranges::sort(order_, {}, [&](std::uint32_t op) { return std::pair{start[op], position_[op]}; });
  const std::int64_t strict = try_strict(device, order_);
  return std::min(strict, try_priority(device, order_));
}

namespace {

/// Depth-first search over the orders. For pruning, start times ignore contention on links.
class StrictOrders {
 public:
  StrictOrders(const ExactModel& model, const Tasks& tasks, const std::vector<std::uint32_t>& device,
               SearchState& state, Realization& realization)
      : model_(model),
        tasks_(tasks),
        device_(device),
        state_(state),
        realization_(realization),
        end_(model.ops, -1),
        free_(model.devices, 0) {}

  void descend() {
    if (!state_.enter()) return;
    if (order_.size() == model_.ops) {
      realization_.try_strict(device_, order_);
      return;
    }
    for (std::uint32_t op = 0; op < model_.ops; ++op) {
      if (end_[op] >= 0 || !is_free(op) || !is_least(op)) continue;
      const std::uint32_t device = device_[op];
      const std::int64_t duration = model_.time(op, device), before = free_[device];
      std::int64_t start = duration > 0 ? before : 0;
      for (const auto& [tensor, from] : model_.inputs[op]) {
        const bool crosses = tensor != ExactModel::kNoTensor && device_[from] != device;
        start = std::max(start, end_[from] + (crosses ? model_.transfer(tensor, device_[from], device) : 0));
      }
      if (start + duration + tasks_.tasks[op].tail >= state_.limit) continue;
      end_[op] = start + duration;
      if (duration > 0) free_[device] = end_[op] + model_.gap[device];
      order_.push_back(op);
      descend();
      order_.pop_back();
      free_[device] = before;
      end_[op] = -1;
      if (state_.stopped) return;
    }
  }

 private:
  bool is_free(std::uint32_t op) const {
    return std::ranges::all_of(model_.inputs[op], [&](const auto& input) { return end_[input.from] >= 0; });
  }
  /// Whether the op could not move forward past an op of a higher id, which would be the same strict order.
  bool is_least(std::uint32_t op) const {
    for (std::size_t i = order_.size(); i-- > 0;) {
      const std::uint32_t other = order_[i];
      if (device_[other] == device_[op]) return true;
      if (std::ranges::any_of(model_.inputs[op], [&](const auto& input) { return input.from == other; })) return true;
      if (other > op) return false;
    }
    return true;
  }

  const ExactModel& model_;
  const Tasks& tasks_;
  const std::vector<std::uint32_t>& device_;
  SearchState& state_;
  Realization& realization_;
  std::vector<std::int64_t> end_, free_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

void try_all_strict_orders(const ExactModel& model, const Tasks& tasks, const std::vector<std::uint32_t>& device,
                           SearchState& state, Realization& realization) {
  StrictOrders{model, tasks, device, state, realization}.descend();
}

}  // namespace trainyard::detail
