#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/place/exact/model.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard::detail {

struct WindowSearchOptions {
  std::int64_t limit = 0;                  // only what is below it is looked for
  std::uint64_t most_nodes = 1'000;        // of the search tree
  std::uint64_t most_per_placement = 100;  // of them, for the order of one placement
  std::function<bool()> stop = {};
};

/// branch_and_bound's searches on a window: placements of its ops, and for each the order of ops and
/// transfers, so that max over ops of (end + what follows it) is least. Transfers of what is not of the window are not
/// seen.
struct WindowAnswer {
  std::vector<std::uint32_t> device;  // of each op
  std::vector<std::int64_t> start;
  std::int64_t value = 0;
};
struct WindowSearchResult {
  std::optional<WindowAnswer> best;  // none: nothing below the limit was found
  std::uint64_t nodes = 0;
  bool complete = false;  // there is nothing better
};
WindowSearchResult search_window(const Problem& problem, const ExactWindow& window, const WindowSearchOptions& options);

}  // namespace trainyard::detail
