#include "trainyard/place/load/load_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace trainyard {

LoadState::LoadState(const LoadProblem& problem, std::vector<DeviceId> placement)
    : problem_(&problem),
      device_count_(problem.device_count()),
      device_(placement.size(), DeviceId{0}),
      passes_(2 * device_count_),
      held_(device_count_, 0),
      room_(device_count_, std::numeric_limits<std::int64_t>::max()),
      producer_(problem.tensor_count(), DeviceId{0}),
      readers_(problem.tensor_count() * device_count_, 0),
      remote_(problem.tensor_count(), 0) {
  // All colors start on device 0, as if it could run them, and are then moved to their devices.
  for (const DeviceId device : problem.devices())
    if (const auto& memory = problem.kind(problem.kind_of(device)).memory) room_[device.index()] = memory->count;
  for (const TensorId id : problem.tensors())
    readers(id, DeviceId{0}) = static_cast<std::uint32_t>(problem.tensor(id).consumers.size());
  for (std::size_t color = 0; color < device_.size(); ++color) {
    add_size(DeviceId{0}, size(color).count);
    for (const bool backward : {false, true})
      passes_[backward].compute += problem.color_time(color, problem.kind_of(DeviceId{0}), backward);
  }
  for (std::size_t color = 0; color < device_.size(); ++color) move(color, placement[color]);
}

void LoadState::add_size(DeviceId device, std::int64_t bytes) {
  std::int64_t& held = held_[device.index()];
  const std::int64_t room = room_[device.index()];
  excess_ -= std::max<std::int64_t>(held - room, 0);
  held += bytes;
  excess_ += std::max<std::int64_t>(held - room, 0);
}

void LoadState::move(std::size_t color, DeviceId to) {
  const DeviceId from = std::exchange(device_[color], to);
  if (from == to) return;
  add_size(from, -size(color).count);
  add_size(to, size(color).count);
  for (const bool backward : {false, true}) {
    passes_[2 * from.index() + backward].compute -= problem_->color_time(color, problem_->kind_of(from), backward);
    passes_[2 * to.index() + backward].compute += problem_->color_time(color, problem_->kind_of(to), backward);
  }
  for (const OpId op : problem_->color_ops(static_cast<std::uint32_t>(color))) {
    for (const TensorId tensor : problem_->outputs(op)) move_producer(tensor, from, to);
    for (const TensorId tensor : problem_->inputs(op)) move_reader(tensor, from, to);
  }
}

void LoadState::move_producer(TensorId tensor, DeviceId from, DeviceId to) {
  const OpId op = problem_->tensor(tensor).producer;
  std::uint32_t& remote = remote_[tensor.index()];
  if (remote > 0) pass(from, op).out -= cost(tensor, from);
  if (readers(tensor, from) > 0) {
    pass(from, op).in += cost(tensor, from);
    ++remote;
  }
  if (readers(tensor, to) > 0) {
    pass(to, op).in -= cost(tensor, to);
    --remote;
  }
  producer_[tensor.index()] = to;
  if (remote > 0) pass(to, op).out += cost(tensor, to);
}

void LoadState::move_reader(TensorId tensor, DeviceId from, DeviceId to) {
  const OpId op = problem_->tensor(tensor).producer;
  const DeviceId producer = producer_[tensor.index()];
  std::uint32_t& remote = remote_[tensor.index()];
  if (--readers(tensor, from) == 0 && from != producer) {
    pass(from, op).in -= cost(tensor, from);
    if (--remote == 0) pass(producer, op).out -= cost(tensor, producer);
  }
  if (readers(tensor, to)++ == 0 && to != producer) {
    pass(to, op).in += cost(tensor, to);
    if (remote++ == 0) pass(producer, op).out += cost(tensor, producer);
  }
}

Picoseconds LoadState::value(const LoadOptions& options) const {
  Picoseconds together{}, forward{}, backward{};
  for (std::size_t i = 0; i < device_count_; ++i) {
    const DeviceId device{i};
    if (options.goal == LoadGoal::together) {
      together = std::max(together, load(device, options.sum));
    } else {
      forward = std::max(forward, this->forward(device).load(options.sum));
      backward = std::max(backward, this->backward(device).load(options.sum));
    }
  }
  return options.goal == LoadGoal::together ? together : forward + backward;
}

LoadPlacement placement_of(const LoadState& state) {
  LoadPlacement placement(state.problem().op_count());
  for (const OpId op : state.problem().ops()) placement[op] = state.device(state.problem().op(op).color);
  return placement;
}

}  // namespace trainyard
