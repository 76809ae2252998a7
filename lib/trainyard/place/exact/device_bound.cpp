#include "trainyard/place/exact/device_bound.hpp"

#include <algorithm>
#include <functional>

namespace trainyard::detail {

DeviceBound::DeviceBound(const ExactModel& model) : model_(model), group_(model.ops) {
  for (std::uint32_t g = 0; g < model.group_ops.size(); ++g)
    for (const std::uint32_t op : model.group_ops[g]) group_[op] = g;
}

/// The time that one device needs for `together_`, which is sorted by descending release; then the header's least k.
std::int64_t DeviceBound::join(std::int64_t gap) {
  std::int64_t least = 0;
  for (const Neighbor& n : neighbors_) least = std::max(least, std::min(n.end(), n.remote));
  if (neighbors_.size() < 2 || least >= kNever) return least;
  std::erase_if(neighbors_, [](const Neighbor& n) { return n.release == kNever; });
  std::ranges::sort(neighbors_, std::greater<>{}, &Neighbor::remote);
  constexpr std::size_t kMostTogether = 16;  // what is beyond is neglected, which lowers the bound
  together_.clear();
  std::int64_t best = kNever;
  for (std::size_t i = 0;; ++i) {
    std::int64_t work = 0, needed = 0;
    for (const Neighbor& n : together_) {
      if (n.duration > 0) work += n.duration + gap;
      if (work > 0) needed = std::max(needed, n.release + work - gap);
    }
    if (i == neighbors_.size() || i == kMostTogether) return std::max(least, std::min(best, needed));
    best = std::min(best, std::max(needed, neighbors_[i].remote));
    if (needed >= best) return std::max(least, best);
    together_.insert(std::ranges::lower_bound(together_, neighbors_[i].release, std::greater<>{}, &Neighbor::release),
                     neighbors_[i]);
  }
}

/// The head of the op on the device from its predecessors' (`before`), or the tail from its readers'.
std::int64_t DeviceBound::longest(const std::vector<ExactModel::Input>& edges, std::size_t op, std::size_t device,
                                  bool before, const std::vector<std::int64_t>& release) {
  const std::size_t devices = model_.devices;
  neighbors_.clear();
  std::int64_t least = 0;
  for (const auto& [tensor, other] : edges) {
    Neighbor n{kNever, 0, kNever};
    if (may(other, device)) {
      n.release = release[other * devices + device];
      n.duration = model_.time(other, device);
    }
    if (group_[other] != group_[op]) {
      for (std::size_t d = 0; d < devices; ++d) {
        if (d == device || !may(other, d)) continue;
        const std::int64_t crossing = tensor == ExactModel::kNoTensor ? 0
                                      : before                        ? model_.transfer(tensor, d, device)
                                                                      : model_.transfer(tensor, device, d);
        n.remote = std::min(n.remote, release[other * devices + d] + model_.time(other, d) + crossing);
      }
    }
    least = std::max(least, std::min(n.end(), n.remote));
    neighbors_.push_back(n);
  }
  if (edges.size() < 2) return least;
  // Several tensors between the same two ops would count an op twice: such ops have the simple bound alone.
  for (std::size_t i = 0; i < edges.size(); ++i)
    for (std::size_t k = i + 1; k < edges.size() && edges.size() <= 32; ++k)
      if (edges[i].from == edges[k].from) return least;
  if (edges.size() > 32) return least;
  return std::max(least, join(model_.gap[device]));
}

/// Takes away devices on which an op cannot be below the limit; true where there were some.
bool DeviceBound::drop(std::int64_t limit, std::int64_t& bound) {
  bool dropped = false;
  const std::size_t devices = model_.devices;
  for (std::size_t op = 0; op < model_.ops; ++op) {
    std::int64_t least = kNever;
    for (std::size_t d = 0; d < devices; ++d) {
      if (!may(op, d)) continue;
      const std::int64_t sum = head_[op * devices + d] + model_.time(op, d) + tail_[op * devices + d];
      least = std::min(least, sum);
      if (sum < limit) continue;
      dropped = true;
      for (const std::uint32_t other : model_.group_ops[group_[op]]) possible_[other * devices + d] = 0;
    }
    bound = std::max(bound, least == kNever ? limit : least);
  }
  return dropped;
}

std::int64_t DeviceBound::operator()(const std::vector<std::uint32_t>& device, std::int64_t limit) {
  const std::size_t devices = model_.devices;
  possible_.assign(model_.ops * devices, 0);
  for (std::size_t op = 0; op < model_.ops; ++op) {
    if (device[op] != kUnplaced)
      possible_[op * devices + device[op]] = 1;
    else
      for (const std::uint32_t d : model_.able[group_[op]]) possible_[op * devices + d] = 1;
  }
  head_.resize(model_.ops * devices);
  tail_.resize(model_.ops * devices);
  std::int64_t bound = 0;
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::uint32_t op : model_.order)
      for (std::size_t d = 0; d < devices; ++d)
        if (may(op, d))
          head_[op * devices + d] =
              std::max({model_.head[op], model_.arrives(op, d), longest(model_.inputs[op], op, d, true, head_)});
    for (std::size_t i = model_.order.size(); i-- > 0;) {
      const std::uint32_t op = model_.order[i];
      for (std::size_t d = 0; d < devices; ++d)
        if (may(op, d))
          tail_[op * devices + d] =
              std::max({model_.tail[op], model_.follows(op, d), longest(model_.outputs[op], op, d, false, tail_)});
    }
    const bool dropped = drop(limit, bound);
    if (bound >= limit) return bound;
    if (!dropped) break;
  }
  decided_.assign(model_.ops, kUnplaced);
  least_head_.assign(model_.ops, kNever);
  least_tail_ = least_time_ = least_head_;
  for (std::size_t op = 0; op < model_.ops; ++op) {
    std::size_t left = 0;
    for (std::size_t d = 0; d < devices; ++d) {
      if (!may(op, d)) continue;
      ++left;
      decided_[op] = static_cast<std::uint32_t>(d);
      least_head_[op] = std::min(least_head_[op], head_[op * devices + d]);
      least_tail_[op] = std::min(least_tail_[op], tail_[op * devices + d]);
      least_time_[op] = std::min(least_time_[op], model_.time(op, d));
    }
    if (left != 1) decided_[op] = kUnplaced;
    if (left == 0) return std::max(bound, limit);  // dropped in the last round
  }
  return bound;
}

}  // namespace trainyard::detail
