#include "trainyard/place/exact/placement_bound.hpp"

#include <algorithm>

namespace trainyard::detail {

PlacementBound::PlacementBound(const ExactModel& model) : model_(model), jobs_(model.resources) {}

std::int64_t PlacementBound::operator()(const std::vector<std::uint32_t>& device, std::int64_t limit) {
  const auto crossing = [&](std::uint32_t tensor, std::uint32_t from, std::uint32_t to) {
    const bool known = tensor != ExactModel::kNoTensor && device[from] != kUnplaced && device[to] != kUnplaced;
    return known && device[from] != device[to] ? model_.transfer(tensor, device[from], device[to]) : 0;
  };
  head_ = model_.head;
  tail_ = model_.tail;
  std::int64_t bound = 0;
  for (const std::uint32_t op : model_.order) {
    if (device[op] != kUnplaced) head_[op] = std::max(head_[op], model_.arrives(op, device[op]));
    for (const auto& [tensor, from] : model_.inputs[op])
      head_[op] = std::max(head_[op], head_[from] + time(device, from) + crossing(tensor, from, op));
  }
  for (std::size_t i = model_.order.size(); i-- > 0;) {
    const std::uint32_t op = model_.order[i];
    if (device[op] != kUnplaced) tail_[op] = std::max(tail_[op], model_.follows(op, device[op]));
    for (const auto& [tensor, reader] : model_.outputs[op])
      tail_[op] = std::max(tail_[op], tail_[reader] + time(device, reader) + crossing(tensor, op, reader));
    bound = std::max(bound, head_[op] + time(device, op) + tail_[op]);
  }
  if (bound >= limit) return bound;

  for (auto& jobs : jobs_) jobs.clear();
  const auto add = [&](std::uint32_t resource, std::int64_t head, std::int64_t duration, std::int64_t tail) {
    jobs_[resource].push_back({head, duration + model_.gap[resource], tail - model_.gap[resource]});
  };
  for (std::uint32_t op = 0; op < model_.ops; ++op) {
    if (device[op] == kUnplaced) continue;
    if (time(device, op) > 0) add(device[op], head_[op], time(device, op), tail_[op]);
    // Each tensor once to each device: the tail is that of its most urgent reader there.
    const auto& readers = model_.outputs[op];
    for (std::size_t i = 0; i < readers.size() && readers[i].tensor != ExactModel::kNoTensor;) {
      std::size_t last = i;
      sent_.clear();
      bool broadcast = false;
      for (; last < readers.size() && readers[last].tensor == readers[i].tensor; ++last) {
        const std::uint32_t to = device[readers[last].from];
        if (to == kUnplaced || to == device[op] || std::ranges::find(sent_, to) != sent_.end()) continue;
        sent_.push_back(to);
      }
      for (const std::uint32_t to : sent_) {
        const auto& route = model_.route(device[op], to);
        if (route.broadcast && broadcast) continue;
        broadcast = broadcast || route.broadcast;
        std::int64_t tail = 0;
        for (std::size_t k = i; k < last; ++k) {
          const std::uint32_t reader = readers[k].from, there = device[reader];
          if (there == kUnplaced || there == device[op]) continue;
          const bool served = there == to || (route.broadcast && model_.route(device[op], there).broadcast);
          if (served) tail = std::max(tail, time(device, reader) + tail_[reader]);
        }
        const std::int64_t duration = model_.transfer(readers[i].tensor, device[op], to);
        if (duration == 0) continue;
        for (const std::uint32_t resource : route.resources)
          add(resource, head_[op] + time(device, op), duration, tail);
      }
      i = last;
    }
  }
  for (auto& jobs : jobs_) {
    if (jobs.size() > 1) bound = std::max(bound, one_machine_bound(jobs, waiting_));
    if (bound >= limit) return bound;
  }
  return std::max(bound, shared_work(device));
}

std::int64_t PlacementBound::shared_work(const std::vector<std::uint32_t>& device) {
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
      if (head_[op] < from || time(device, op) == 0) continue;
      work += time(device, op);
      bound = std::max(bound, from + (work + machines - 1) / machines + tail_[op]);
    }
  }
  return bound;
}

}  // namespace trainyard::detail
