#include "trainyard/place/exact/branch_and_bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/exact/model.hpp"
#include "trainyard/place/exact/placement_bound.hpp"
#include "trainyard/place/exact/realize.hpp"
#include "trainyard/place/exact/sequencing.hpp"
#include "trainyard/place/exact/tasks.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {
namespace {

using detail::ExactModel;
using detail::kUnplaced;
using detail::SearchState;
using detail::Tasks;

/// Outer search, over placements.
class PlacementSearch {
 public:
  PlacementSearch(const ExactModel& model, SearchState& state)
      : model_(model),
        state_(state),
        device_(model.ops, kUnplaced),
        groups_on_(model.devices, 0),
        bytes_(model.devices, 0) {}

  void run() {
    descend(0, 0);
    if (state_.stopped) return;
    for (const auto& [value, device] : out_of_reach_) {
      if (value >= state_.limit) continue;
      tasks_.build(model_, device, model_.tail);
      detail::try_all_strict_orders(model_, tasks_, device, state_, realization_);
      if (state_.stopped) return;
    }
  }

  const std::optional<Schedule>& best() const { return realization_.best(); }
  /// Least lower bound among the parts of the search tree that are not settled.
  std::int64_t open() const { return open_; }

 private:
  static constexpr std::size_t kMostUnreached = 64;      // unreachable solutions of one placement to simulate
  static constexpr std::size_t kMostPlacements = 1'000;  // kept for try_all_strict_orders

  bool may_take(std::uint32_t device) const {
    if (groups_on_[device] > 0) return true;
    for (std::uint32_t other = model_.twin[device]; other < device; ++other)
      if (model_.twin[other] == model_.twin[device] && groups_on_[other] == 0) return false;
    return true;
  }

  void put(std::uint32_t group, std::uint32_t device) {
    for (const std::uint32_t op : model_.group_ops[group]) device_[op] = device;
    ++groups_on_[device];
    bytes_[device] += model_.group_bytes[group];
  }
  void take_away(std::uint32_t group, std::uint32_t device) {
    for (const std::uint32_t op : model_.group_ops[group]) device_[op] = kUnplaced;
    --groups_on_[device];
    bytes_[device] -= model_.group_bytes[group];
  }

  void descend(std::size_t depth, std::int64_t bound) {
    if (!state_.enter()) {
      open_ = std::min(open_, bound);
      return;
    }
    if (depth == model_.group_order.size()) return sequence(bound);
    const std::uint32_t group = model_.group_order[depth];
    std::vector<std::pair<std::int64_t, std::uint32_t>> children;
    for (const std::uint32_t device : model_.able[group]) {
      const bool fixed = depth < model_.fixed_groups;
      if (!fixed && !may_take(device)) continue;
      if (bytes_[device] + model_.group_bytes[group] > model_.capacity[device]) continue;
      put(group, device);
      const std::int64_t below = fixed ? bound : std::max(bound, bound_(device_, state_.limit));
      take_away(group, device);
      if (below < state_.limit) children.emplace_back(below, device);
    }
    std::ranges::sort(children);
    for (const auto& [below, device] : children) {
      if (below >= state_.limit) return;
      if (state_.stopped) {
        open_ = std::min(open_, below);
        return;  // the remaining children's bounds are at least this
      }
      put(group, device);
      descend(depth + 1, below);
      take_away(group, device);
    }
  }

  void sequence(std::int64_t bound) {
    bound = std::max(bound, bound_(device_, state_.limit));
    if (bound >= state_.limit) return;
    tasks_.build(model_, device_, bound_.tails());
    bound = std::max(bound, sequencing_.bound(tasks_));
    if (bound >= state_.limit) return;
    by_urgency_.resize(model_.ops);
    for (std::uint32_t op = 0; op < model_.ops; ++op) by_urgency_[op] = op;
    sort_by_descending(by_urgency_,
                       [&](std::uint32_t op) { return tasks_.tasks[op].duration + tasks_.tasks[op].tail; });
    realization_.try_priority(device_, by_urgency_);

    // After kMostUnreached solutions that no schedule reaches, the search goes on without simulation, for the relaxed
    // optimum.
    std::int64_t relaxed = kLongestTime.count, reachable = kLongestTime.count;
    std::size_t in_vain = 0;
    const bool complete = sequencing_.search(tasks_, [&](const std::vector<std::int64_t>& start, std::int64_t value) {
      if (in_vain < kMostUnreached && realization_.try_order(device_, start) == value) return;
      relaxed = std::min(relaxed, value);
      if (++in_vain < kMostUnreached) return;
      if (in_vain == kMostUnreached) reachable = state_.limit;
      state_.limit = std::min(state_.limit, relaxed);
    });
    if (in_vain >= kMostUnreached) state_.limit = reachable;
    if (!complete) open_ = std::min(open_, bound);
    if (relaxed >= state_.limit) return;
    open_ = std::min(open_, relaxed);
    if (out_of_reach_.size() < kMostPlacements) out_of_reach_.emplace_back(relaxed, device_);
  }

  const ExactModel& model_;
  SearchState& state_;
  detail::Realization realization_{model_, state_};
  detail::PlacementBound bound_{model_};
  detail::Sequencing sequencing_{model_, state_};
  Tasks tasks_;
  std::vector<std::uint32_t> device_, by_urgency_;
  std::vector<std::uint32_t> groups_on_;
  std::vector<std::int64_t> bytes_;
  std::int64_t open_ = kLongestTime.count;
  std::vector<std::pair<std::int64_t, std::vector<std::uint32_t>>> out_of_reach_;
};

}  // namespace

BranchAndBoundResult branch_and_bound(const Problem& problem, const BranchAndBoundOptions& options) {
  if (!options.fixed.empty()) {
    check_entries("the list of fixed devices", options.fixed.size(), problem.op_count(), "ops");
    for (const OpId op : problem.ops())
      if (const DeviceId device = options.fixed[op];
          !device.is_none() && (device.index() >= problem.device_count() || !problem.can_run(op, device)))
        refuse("no-device", fmt::format("op '{}' is fixed to a device that cannot run it", problem.graph().name(op)),
               "give a device of the problem that can run it, or DeviceId::none()");
  }
  BranchAndBoundResult result;
  std::int64_t limit = options.upper_limit.count;
  if (options.start != nullptr) {
    Simulation simulation(problem);
    const MemoryPeaks& peaks = simulation.peaks(*options.start);
    if (peaks.fits && peaks.makespan.count <= limit) {
      limit = peaks.makespan.count;
      result.schedule = *options.start;
    }
  }
  const std::int64_t known = best_lower_bound(problem).value.count;
  result.value = result.bound = Nanoseconds{limit};
  result.complete = true;
  if (known >= limit) return result;

  const ExactModel model(problem, options.fixed);
  SearchState state{.limit = limit, .most_nodes = options.most_nodes, .stop = options.stop};
  // A node costs about ops x devices, or ops x devices^2 with DeviceBound. The more it costs, the more often `stop` is
  // polled.
  const std::size_t looks = detail::DeviceBound::worthwhile(model) ? model.devices * model.devices : model.devices;
  state.asked_every = std::clamp<std::uint64_t>(16'384 / std::max<std::size_t>(model.ops * looks, 1), 1, 256);
  PlacementSearch search(model, state);
  search.run();
  result.value = Nanoseconds{state.limit};
  result.nodes = state.nodes;
  result.complete = !state.stopped;
  if (search.best()) result.schedule = search.best();
  result.bound = Nanoseconds{std::max(known, std::min(search.open(), state.limit))};
  return result;
}

}  // namespace trainyard
