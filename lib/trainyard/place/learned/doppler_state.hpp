#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/place/learned/doppler_graph.hpp"

namespace trainyard::learned {

/// Progress of DOPPLER's construction of a placement, with the start and end of each op if devices ran ops in the order
/// in which they are placed, and transfers did not wait for each other. An op is ready when all its predecessors are
/// placed. A group is ready when it has no device yet and one of its ops is ready. Ready ops of groups that have a
/// device are placed at once.
class DopplerState {
 public:
  DopplerState(const PlacementTask& task, const DopplerGraph& graph)
      : task_(task),
        graph_(graph),
        missing_(task.problem.op_count()),
        device_of_group_(task.size(), kNone),
        waiting_(task.size()),
        start_(task.problem.op_count()),
        end_(task.problem.op_count()),
        free_at_(task.devices()),
        work_(task.devices()) {
    for (const OpId op : task.problem.ops()) missing_[op] = graph.inputs[op].size();
    for (const OpId op : task.problem.graph().topological_order())
      if (missing_[op] == 0) make_ready(op);
  }

  std::span<const std::uint32_t> ready() const { return ready_; }  // groups, ascending
  void place(std::uint32_t group, std::uint32_t device) {
    ready_.erase(std::ranges::lower_bound(ready_, group));
    device_of_group_[group] = device;
    std::vector<OpId> next = waiting_[group];
    for (std::size_t i = 0; i < next.size(); ++i) place_op(next[i], next);
  }

  static constexpr std::size_t kFeatures = 5;
  /// Features of each device for the group's first ready op, in ns: the run time of the ops on it; of the op's inputs
  /// there, the sum of their run times, the first start and the last end (0 without inputs there); and the earliest end
  /// of the op there. (Published: the earliest start, which differs by a constant on equal devices.)
  learn::Matrix<double> device_features(std::uint32_t group) const {
    const OpId op = waiting_[group].front();
    learn::Matrix<double> features =
        learn::Matrix<double>::Zero(learn::index(task_.devices()), learn::index(kFeatures));
    for (std::uint32_t device = 0; device < task_.devices(); ++device) {
      auto row = features.row(device);
      row(0) = work_[device];
      bool first = true;
      for (const auto& input : graph_.inputs[op]) {
        if (device_of(input.op) != device) continue;
        row(1) += time(input.op, device);
        row(2) = first ? start_[input.op] : std::min(row(2), start_[input.op]);
        row(3) = std::max(row(3), end_[input.op]);
        first = false;
      }
      row(4) = end_on(op, device);
    }
    return features;
  }

  /// The critical path's choices, which stage 1 imitates: of the ready groups the one with the largest bottom level (as
  /// index in ready()), and for a group the allowed device on which its first ready op ends first. Ties go to the lower
  /// number.
  std::size_t critical_choice() const {
    const auto most =
        std::ranges::max_element(ready_, {}, [this](std::uint32_t group) { return graph_.features(group, 1); });
    return static_cast<std::size_t>(most - ready_.begin());
  }
  std::uint32_t earliest_device(std::uint32_t group) const {
    const auto allowed = task_.allowed(group);
    std::uint32_t best = kNone;
    double least = 0;
    for (std::uint32_t device = 0; device < task_.devices(); ++device) {
      const double end = end_on(waiting_[group].front(), device);
      if (!allowed[device] || (best != kNone && end >= least)) continue;
      best = device;
      least = end;
    }
    return best;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::uint32_t device_of(OpId op) const { return device_of_group_[task_.groups.of[op]]; }
  double time(OpId op, std::uint32_t device) const { return graph_.times[op.index() * task_.devices() + device]; }
  double end_on(OpId op, std::uint32_t device) const {
    double start = free_at_[device];
    for (const auto& input : graph_.inputs[op])
      start = std::max(start, end_[input.op] + (device_of(input.op) == device ? 0 : input.cost));
    return start + time(op, device);
  }
  /// Marks the op ready. Its group has no device yet, so it waits for one.
  void make_ready(OpId op) {
    const std::uint32_t group = task_.groups.of[op];
    if (waiting_[group].empty()) ready_.insert(std::ranges::lower_bound(ready_, group), group);
    waiting_[group].push_back(op);
  }
  /// Places the op on its group's device. Appends to `next` the ops that are then placed at once.
  void place_op(OpId op, std::vector<OpId>& next) {
    const std::uint32_t device = device_of(op);
    end_[op] = end_on(op, device);
    start_[op] = end_[op] - time(op, device);
    free_at_[device] = end_[op];
    work_[device] += time(op, device);
    for (const OpId follower : graph_.outputs[op]) {
      if (--missing_[follower] > 0) continue;
      if (device_of(follower) == kNone)
        make_ready(follower);
      else
        next.push_back(follower);
    }
  }

  const PlacementTask& task_;
  const DopplerGraph& graph_;
  std::vector<std::uint32_t> ready_;
  IdMap<OpId, std::size_t> missing_;  // inputs that are not placed yet
  std::vector<std::uint32_t> device_of_group_;
  std::vector<std::vector<OpId>> waiting_;  // of each group, the ops that were ready before it had a device
  IdMap<OpId, double> start_, end_;
  std::vector<double> free_at_, work_;  // of each device
};

}  // namespace trainyard::learned
