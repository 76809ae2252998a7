#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "trainyard/place/exact/model.hpp"
#include "trainyard/place/exact/one_machine.hpp"

namespace trainyard::detail {

/// What no schedule of a placement that is not complete yet can beat: heads and tails with the durations and transfers
/// that are decided, Carlier's bound on each resource, and the work between a head and a tail over all devices.
class PlacementBound {
 public:
  explicit PlacementBound(const ExactModel& model);
  /// `device` by op, kUnplaced where it is open. Stops early at `limit`.
  std::int64_t operator()(const std::vector<std::uint32_t>& device, std::int64_t limit);

 private:
  std::int64_t time(const std::vector<std::uint32_t>& device, std::size_t op) const {
    return device[op] == kUnplaced ? model_.shortest[op] : model_.time(op, device[op]);
  }
  std::int64_t shared_work(const std::vector<std::uint32_t>& device);

  const ExactModel& model_;
  std::vector<std::int64_t> head_, tail_, thresholds_;
  std::vector<std::uint32_t> by_tail_, sent_;
  std::vector<std::vector<MachineJob>> jobs_;
  std::vector<std::pair<std::int64_t, std::int64_t>> waiting_;
};

}  // namespace trainyard::detail
