#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/place/exact/model.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard::detail {

struct WindowSearchOptions {
  std::int64_t limit = 0;                  // only solutions below it are looked for
  std::uint64_t most_nodes = 1'000;        // in the search tree
  std::uint64_t most_per_placement = 100;  // nodes for the order of one placement
  std::function<bool()> stop = {};
};

struct WindowAnswer {
  std::vector<std::uint32_t> device;  // of each op
  std::vector<std::int64_t> start;
  std::int64_t value = 0;
};
struct WindowSearchResult {
  std::optional<WindowAnswer> best;  // empty: nothing below the limit was found
  std::uint64_t nodes = 0;
  bool complete = false;  // the search was exhaustive
};
/// Applies the two searches of branch_and_bound to a window: placements of its ops, and for each the order of ops and
/// transfers, to minimize the maximum over ops of (end + what follows it). Transfers of tensors outside the window are
/// ignored.
WindowSearchResult search_window(const Problem& problem, const ExactWindow& window, const WindowSearchOptions& options);

}  // namespace trainyard::detail
