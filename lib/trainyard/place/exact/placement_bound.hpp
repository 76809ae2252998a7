#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainyard/place/exact/device_bound.hpp"
#include "trainyard/place/exact/model.hpp"
#include "trainyard/place/exact/one_machine.hpp"

namespace trainyard::detail {

/// Lower bound on the makespan of all schedules that complete a partial placement. It combines heads and tails with the
/// durations and transfers decided so far (DeviceBound if the problem is small enough), Carlier's bound on each
/// resource, and the total work of the ops beyond a given head and tail, spread over all devices.
class PlacementBound {
 public:
  explicit PlacementBound(const ExactModel& model);
  /// `device[op]` is kUnplaced if the op is undecided. Returns early once the bound reaches `limit`.
  std::int64_t operator()(const std::vector<std::uint32_t>& device, std::int64_t limit);

  /// Tails of the ops from the last call; valid if its result was below the limit.
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
  std::vector<std::uint32_t> device_;  // where each op must be; kUnplaced: undecided
  std::vector<std::int64_t> head_, tail_, thresholds_;
  std::vector<std::uint32_t> by_tail_, sent_;
  std::vector<std::vector<MachineJob>> jobs_;
  std::vector<std::pair<std::int64_t, std::int64_t>> waiting_;
};

}  // namespace trainyard::detail
