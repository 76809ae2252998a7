#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainyard/place/exact/device_bound.hpp"
#include "trainyard/place/exact/model.hpp"
#include "trainyard/place/exact/one_machine.hpp"

namespace trainyard::detail {

/// Lower bound of all schedules of a partial placement: heads and tails with the durations and transfers
/// that are decided (DeviceBound where the problem is small enough), Carlier's bound on each resource, and the work
/// between a head and a tail over all devices.
class PlacementBound {
 public:
  explicit PlacementBound(const ExactModel& model);
  /// `device` by op, kUnplaced where it is open. Stops early at `limit`.
  std::int64_t operator()(const std::vector<std::uint32_t>& device, std::int64_t limit);

  /// Tails of the ops in the last call; meaningful where that was below the limit.
  const std::vector<std::int64_t>& tails() const { return tail_; }

 private:
  std::int64_t time(std::size_t op) const {
    if (by_device_) return device_bound_.time(op);
    return device_[op] == kUnplaced ? model_.shortest[op] : model_.time(op, device_[op]);
  }
  std::int64_t chains();
  std::int64_t resources();
  std::int64_t shared_work();

  const ExactModel& model_;
  DeviceBound device_bound_;
  bool by_device_;
  std::int64_t limit_ = 0;
  std::vector<std::uint32_t> device_;  // where each op must be, kUnplaced where it is open
  std::vector<std::int64_t> head_, tail_, thresholds_;
  std::vector<std::uint32_t> by_tail_, sent_;
  std::vector<std::vector<MachineJob>> jobs_;
  std::vector<std::pair<std::int64_t, std::int64_t>> waiting_;
};

}  // namespace trainyard::detail
