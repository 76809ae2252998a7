#include "trainyard/place/exact/placement_bound.hpp"

#include <algorithm>

namespace trainyard::detail {

PlacementBound::PlacementBound(const ExactModel& model)
    : model_(model), device_bound_(model), by_device_(DeviceBound::worthwhile(model)), jobs_(model.resources) {}

std::int64_t PlacementBound::operator()(const std::vector<std::uint32_t>& device, std::int64_t limit) {
  limit_ = limit;
  device_ = device;
  std::int64_t bound = 0;
  if (by_device_) {
    bound = device_bound_(device, limit);
    if (bound >= limit) return bound;
    head_.resize(model_.ops);
    tail_.resize(model_.ops);
    for (std::size_t op = 0; op < model_.ops; ++op) {
      device_[op] = device_bound_.device(op);
      head_[op] = device_bound_.head(op);
      tail_[op] = device_bound_.tail(op);
    }
  } else {
    bound = chains();
    if (bound >= limit) return bound;
  }
  bound = std::max(bound, resources());
  return bound >= limit ? bound : std::max(bound, shared_work());
}

/// Heads and tails with the durations and transfers decided so far.
std::int64_t PlacementBound::chains() {
  const auto crossing = [&](std::uint32_t tensor, std::uint32_t from, std::uint32_t to) {
    const bool known = tensor != ExactModel::kNoTensor && device_[from] != kUnplaced && device_[to] != kUnplaced;
    return known && device_[from] != device_[to] ? model_.transfer(tensor, device_[from], device_[to]) : 0;
  };
  head_ = model_.head;
  tail_ = model_.tail;
  std::int64_t bound = 0;
  for (const std::uint32_t op : model_.order) {
    if (device_[op] != kUnplaced) head_[op] = std::max(head_[op], model_.arrives(op, device_[op]));
    for (const auto& [tensor, from] : model_.inputs[op])
      head_[op] = std::max(head_[op], head_[from] + time(from) + crossing(tensor, from, op));
  }
  for (std::size_t i = model_.order.size(); i-- > 0;) {
    const std::uint32_t op = model_.order[i];
    if (device_[op] != kUnplaced) tail_[op] = std::max(tail_[op], model_.follows(op, device_[op]));
    for (const auto& [tensor, reader] : model_.outputs[op])
      tail_[op] = std::max(tail_[op], tail_[reader] + time(reader) + crossing(tensor, op, reader));
    bound = std::max(bound, head_[op] + time(op) + tail_[op]);
  }
  return bound;
}

/// Carlier's bound on every device and channel.
std::int64_t PlacementBound::resources() {
  std::int64_t bound = 0;
  for (auto& jobs : jobs_) jobs.clear();
  const auto add = [&](std::uint32_t resource, std::int64_t head, std::int64_t duration, std::int64_t tail) {
    jobs_[resource].push_back({head, duration + model_.gap[resource], tail - model_.gap[resource]});
  };
  for (std::uint32_t op = 0; op < model_.ops; ++op) {
    if (device_[op] == kUnplaced) continue;
    if (time(op) > 0) add(device_[op], head_[op], time(op), tail_[op]);
    // A tensor is sent once to each device, with the tail of its most urgent reader there.
    const auto& readers = model_.outputs[op];
    for (std::size_t i = 0; i < readers.size() && readers[i].tensor != ExactModel::kNoTensor;) {
      std::size_t last = i;
      sent_.clear();
      bool broadcast = false;
      for (; last < readers.size() && readers[last].tensor == readers[i].tensor; ++last) {
        const std::uint32_t to = device_[readers[last].from];
        if (to == kUnplaced || to == device_[op] || std::ranges::find(sent_, to) != sent_.end()) continue;
        sent_.push_back(to);
      }
      for (const std::uint32_t to : sent_) {
        const auto& route = model_.route(device_[op], to);
        if (route.broadcast && broadcast) continue;
        broadcast = broadcast || route.broadcast;
        std::int64_t tail = 0;
        for (std::size_t k = i; k < last; ++k) {
          const std::uint32_t reader = readers[k].from, there = device_[reader];
          if (there == kUnplaced || there == device_[op]) continue;
          const bool served = there == to || (route.broadcast && model_.route(device_[op], there).broadcast);
          if (served) tail = std::max(tail, time(reader) + tail_[reader]);
        }
        const std::int64_t duration = model_.transfer(readers[i].tensor, device_[op], to);
        if (duration == 0) continue;
        for (const std::uint32_t resource : route.resources) add(resource, head_[op] + time(op), duration, tail);
      }
      i = last;
    }
  }
  for (auto& jobs : jobs_) {
    if (jobs.size() > 1) bound = std::max(bound, one_machine_bound(jobs, waiting_));
    if (bound >= limit_) return bound;
  }
  return bound;
}

std::int64_t PlacementBound::shared_work() {
  by_tail_.resize(model_.ops);
  for (std::uint32_t op = 0; op < model_.ops; ++op) by_tail_[op] = op;
  std::ranges::sort(by_tail_, [&](std::uint32_t a, std::uint32_t b) { return tail_[a] > tail_[b]; });
  thresholds_ = head_;
  std::ranges::sort(thresholds_);
  thresholds_.erase(std::unique(thresholds_.begin(), thresholds_.end()), thresholds_.end());
  const std::size_t most = model_.ops <= 64 ? thresholds_.size() : 8;
  const std::size_t count = std::min(thresholds_.size(), most);
  const auto machines = static_cast<std::int64_t>(model_.devices);
  std::int64_t bound = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t from = thresholds_[i * thresholds_.size() / count];
    std::int64_t work = 0;
    for (const std::uint32_t op : by_tail_) {
      if (head_[op] < from || time(op) == 0) continue;
      work += time(op);
      bound = std::max(bound, from + (work + machines - 1) / machines + tail_[op]);
    }
  }
  return bound;
}

}  // namespace trainyard::detail
