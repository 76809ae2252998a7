#include "trainyard/place/exact/device_bound.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

namespace trainyard::detail {

DeviceBound::DeviceBound(const ExactModel& model) : model_(model), group_(model.ops), left_(model.ops) {
  for (std::uint32_t g = 0; g < model.group_ops.size(); ++g)
    for (const std::uint32_t op : model.group_ops[g]) group_[op] = g;
  // join() would count an op twice if it shared several tensors with the same op; those ops use the simple bound alone.
  const auto joins = [](const std::vector<ExactModel::Input>& edges) {
    std::set<std::uint32_t> others;
    for (const auto& edge : edges) others.insert(edge.from);
    return edges.size() >= 2 && edges.size() <= 32 && others.size() == edges.size();
  };
  for (std::size_t op = 0; op < model.ops; ++op) {
    joins_inputs_.push_back(joins(model.inputs[op]));
    joins_outputs_.push_back(joins(model.outputs[op]));
  }
}

/// Least k of the class comment, for the ops in `neighbors_`. `together_` holds those that must share the device, by
/// descending release.
std::int64_t DeviceBound::join(std::int64_t gap) {
  std::int64_t least = 0;
  for (const Neighbor& n : neighbors_) least = std::max(least, std::min(n.end(), n.remote));
  if (neighbors_.size() < 2 || least >= kNever) return least;
  std::erase_if(neighbors_, [](const Neighbor& n) { return n.release == kNever; });
  std::ranges::sort(neighbors_, std::greater<>{}, &Neighbor::remote);
  constexpr std::size_t kMostTogether = 16;  // the others are ignored, which lowers the bound
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

/// Head of the op on the device, from its predecessors (`before`), or its tail, from its readers.
std::int64_t DeviceBound::longest(const std::vector<ExactModel::Input>& edges, std::size_t op, std::size_t device,
                                  bool before, const std::vector<std::int64_t>& release) {
  const std::size_t devices = model_.devices;
  neighbors_.clear();
  std::int64_t least = 0;
  for (const auto& [tensor, other] : edges) {
    Neighbor n{kNever, 0, kNever};
    for (const std::uint32_t d : left_[other]) {
      if (d == device) {
        n.release = release[other * devices + d];
        n.duration = model_.time(other, d);
      } else if (group_[other] != group_[op]) {
        const std::int64_t crossing = tensor == ExactModel::kNoTensor ? 0
                                      : before                        ? model_.transfer(tensor, d, device)
                                                                      : model_.transfer(tensor, device, d);
        n.remote = std::min(n.remote, release[other * devices + d] + model_.time(other, d) + crossing);
      }
    }
    least = std::max(least, std::min(n.end(), n.remote));
    neighbors_.push_back(n);
  }
  return (before ? joins_inputs_ : joins_outputs_)[op] ? std::max(least, join(model_.gap[device])) : least;
}

/// Drops the devices on which an op would reach the limit, and raises `bound`. Returns whether any device was dropped.
bool DeviceBound::drop(std::int64_t limit, std::int64_t& bound) {
  bool dropped = false;
  const std::size_t devices = model_.devices;
  for (std::size_t op = 0; op < model_.ops; ++op) {
    std::int64_t least = kNever;
    std::vector<std::uint32_t>& mine = left_[op];
    const auto beyond = [&](std::uint32_t d) {
      const std::int64_t sum = head_[op * devices + d] + model_.time(op, d) + tail_[op * devices + d];
      least = std::min(least, sum);
      return sum >= limit;
    };
    dropped_.clear();
    std::ranges::copy_if(mine, std::back_inserter(dropped_), beyond);
    if (!dropped_.empty()) {
      dropped = true;
      for (const std::uint32_t other : model_.group_ops[group_[op]])
        std::erase_if(left_[other], [&](std::uint32_t d) { return std::ranges::find(dropped_, d) != dropped_.end(); });
    }
    bound = std::max(bound, least == kNever ? limit : least);
  }
  return dropped;
}

std::int64_t DeviceBound::operator()(const std::vector<std::uint32_t>& device, std::int64_t limit) {
  const std::size_t devices = model_.devices;
  for (std::size_t op = 0; op < model_.ops; ++op) {
    if (device[op] != kUnplaced)
      left_[op].assign(1, device[op]);
    else
      left_[op] = model_.able[group_[op]];
  }
  head_.resize(model_.ops * devices);
  tail_.resize(model_.ops * devices);
  std::int64_t bound = 0;
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::uint32_t op : model_.order)
      for (const std::uint32_t d : left_[op])
        head_[op * devices + d] =
            std::max({model_.head[op], model_.arrives(op, d), longest(model_.inputs[op], op, d, true, head_)});
    for (std::size_t i = model_.order.size(); i-- > 0;) {
      const std::uint32_t op = model_.order[i];
      for (const std::uint32_t d : left_[op])
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
    for (const std::uint32_t d : left_[op]) {
      least_head_[op] = std::min(least_head_[op], head_[op * devices + d]);
      least_tail_[op] = std::min(least_tail_[op], tail_[op * devices + d]);
      least_time_[op] = std::min(least_time_[op], model_.time(op, d));
    }
    if (left_[op].size() == 1) decided_[op] = left_[op].front();
    if (left_[op].empty()) return std::max(bound, limit);  // the last round dropped the last device
  }
  return bound;
}

}  // namespace trainyard::detail
