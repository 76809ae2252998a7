#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/place/exact/model.hpp"

namespace trainyard::detail {

/// The tasks of one placement: the ops, by id, then the transfers.
struct Tasks {
  struct Task {
    std::int64_t duration = 0;
    std::int64_t tail = 0;                 // the longest chain of tasks after it
    std::int64_t release = 0, beyond = 0;  // of a window: not before; what follows it elsewhere
    std::vector<std::uint32_t> resources;  // none where it takes no time
    std::vector<std::uint32_t> after;      // tasks that wait for it, once for each reason
    std::uint32_t waits_for = 0;           // how many of these it has itself
  };
  std::size_t ops = 0;
  std::vector<Task> tasks;
  std::vector<std::uint32_t> order;  // topological

  /// Rebuilds it for another placement (op to device); `tails` says what follows each op at least.
  void build(const ExactModel& model, const std::vector<std::uint32_t>& device, const std::vector<std::int64_t>& tails);
};

}  // namespace trainyard::detail
