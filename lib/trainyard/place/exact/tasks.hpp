#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/place/exact/model.hpp"

namespace trainyard::detail {

/// Tasks of one placement: the ops, by id, then the transfers.
struct Tasks {
  struct Task {
    std::int64_t duration = 0;
    std::int64_t tail = 0;                 // longest chain of tasks after it
    std::int64_t release = 0, beyond = 0;  // in a window: earliest start; longest chain outside of it that follows
    std::vector<std::uint32_t> resources;  // empty if it takes no time
    std::vector<std::uint32_t> after;      // its successors, one entry per dependency
    std::uint32_t waits_for = 0;           // number of dependencies of its own
  };
  std::size_t ops = 0;
  std::vector<Task> tasks;
  std::vector<std::uint32_t> order;  // topological

  /// Rebuilds the tasks for another placement (op to device). `tails[op]` is a lower bound on what follows the op.
  void build(const ExactModel& model, const std::vector<std::uint32_t>& device, const std::vector<std::int64_t>& tails);
};

}  // namespace trainyard::detail
