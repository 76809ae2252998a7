#include "trainyard/place/exact/window_search.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/place/exact/placement_bound.hpp"
#include "trainyard/place/exact/sequencing.hpp"
#include "trainyard/place/exact/tasks.hpp"

namespace trainyard::detail {
namespace {

class WindowPlacements {
 public:
  WindowPlacements(const ExactModel& model, const WindowSearchOptions& options)
      : model_(model), options_(options), device_(model.ops, kUnplaced), bytes_(model.held) {}

  WindowSearchResult run() {
    descend(0, 0);
    result_.nodes = state_.nodes;
    result_.complete = result_.complete && !state_.stopped;
    return std::move(result_);
  }

 private:
  void put(std::uint32_t group, std::uint32_t device) {
    for (const std::uint32_t op : model_.group_ops[group]) device_[op] = device;
  }

  void descend(std::size_t depth, std::int64_t bound) {
    if (!state_.enter()) return;
    if (depth == model_.group_order.size()) return sequence();
    const std::uint32_t group = model_.group_order[depth];
    std::vector<std::pair<std::int64_t, std::uint32_t>> children;
    for (const std::uint32_t device : model_.able[group]) {
      const bool fixed = depth < model_.fixed_groups;
      if (!fixed && bytes_[device] + model_.group_bytes[group] > model_.capacity[device]) continue;
      put(group, device);
      const std::int64_t below = fixed ? bound : std::max(bound, bound_(device_, state_.limit));
      put(group, kUnplaced);
      if (below < state_.limit) children.emplace_back(below, device);
    }
    std::ranges::sort(children);
    for (const auto& [below, device] : children) {
      if (below >= state_.limit || state_.stopped) return;
      put(group, device);
      bytes_[device] += model_.group_bytes[group];
      descend(depth + 1, below);
      bytes_[device] -= model_.group_bytes[group];
      put(group, kUnplaced);
    }
  }

  void sequence() {
    tasks_.build(model_, device_, model_.tail);
    if (sequencing_.bound(tasks_) >= state_.limit) return;
    // Keeps one placement from using up all nodes.
    const std::uint64_t all = state_.most_nodes;
    state_.most_nodes = std::min(all, state_.nodes + options_.most_per_placement);
    sequencing_.search(tasks_, [&](const std::vector<std::int64_t>& start, std::int64_t value) {
      result_.best =
          WindowAnswer{device_, {start.begin(), start.begin() + static_cast<std::ptrdiff_t>(model_.ops)}, value};
      state_.limit = value;
    });
    state_.most_nodes = all;
    if (!state_.stopped || state_.nodes >= all || (options_.stop && options_.stop())) return;
    state_.stopped = false;
    result_.complete = false;
  }

  const ExactModel& model_;
  const WindowSearchOptions& options_;
  SearchState state_{.limit = options_.limit, .most_nodes = options_.most_nodes, .stop = options_.stop};
  PlacementBound bound_{model_};
  Sequencing sequencing_{model_, state_};
  Tasks tasks_;
  std::vector<std::uint32_t> device_;
  std::vector<std::int64_t> bytes_;
  WindowSearchResult result_{.best = {}, .nodes = 0, .complete = true};
};

}  // namespace

WindowSearchResult search_window(const Problem& problem, const ExactWindow& window,
                                 const WindowSearchOptions& options) {
  const ExactModel model{problem, window};
  return WindowPlacements{model, options}.run();
}

}  // namespace trainyard::detail
