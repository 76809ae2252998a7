#include "trainyard/plan/planners/alpa.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

using AlpaCuts = ChosenCuts<Nanoseconds>;

/// t_i of every stage that may be, of one mesh, microbatch and rematerialization.
class AlpaStages {
 public:
  AlpaStages(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table, StageRecompute recompute)
      : costs_(costs),
        stages_(plan.stages()),
        more_(microbatches_of(costs, plan) - 1),
        times_(stages_ * costs.layers * costs.layers) {
    for (std::size_t s = 0; s < stages_; ++s)
      for (std::size_t begin = s; begin < costs.layers; ++begin)
        for (std::size_t end = begin + 1; end <= costs.layers - (stages_ - s - 1); ++end) {
          const StageCost& stage = table.of(begin, end, recompute);
          if (!fits(costs, plan, s, stage)) continue;
          const Nanoseconds sum = plan.data > 1 ? costs.all_reduce(plan, s, stage.weights) : Nanoseconds{0};
          times_[index(s, begin, end)] = stage.time() + Nanoseconds{sum.count / (more_ + 1)};
        }
  }

  /// T.
  Nanoseconds step(const AlpaCuts& chosen) const {
    Nanoseconds most{0};
    const std::vector<StageRange> ranges = ranges_of(costs_, chosen.cuts);
    for (std::size_t s = 0; s < stages_; ++s) most = std::max(most, *times_[index(s, ranges[s].begin, ranges[s].end)]);
    return chosen.value + more_ * most;
  }

  /// The cuts of the least T, where it is less than `best`.
  std::optional<AlpaCuts> least(Nanoseconds best) const {
    const auto add = [](Nanoseconds sum, Nanoseconds own) { return sum + own; };
    const auto larger = [](Nanoseconds most, Nanoseconds own) { return std::max(most, own); };
    const auto least_sum = cuts_within(kLongestTime, add);
    if (!least_sum) return std::nullopt;
    const Nanoseconds fastest = cuts_within(kLongestTime, larger)->value;
    std::vector<Nanoseconds> limits;
    for (const auto& time : times_)
      if (time && *time >= fastest) limits.push_back(*time);
    std::ranges::sort(limits);
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    std::optional<AlpaCuts> found;
    for (const Nanoseconds limit : limits) {
      if (least_sum->value + more_ * limit >= best) break;
      auto chosen = cuts_within(limit, add);
      const Nanoseconds whole = step(*chosen);
      if (whole >= best) continue;
      best = whole;
      found = std::move(chosen);
    }
    return found;
  }

 private:
  std::size_t index(std::size_t s, std::size_t begin, std::size_t end) const {
    return (s * costs_.layers + begin) * costs_.layers + end - 1;
  }
  /// With stages of no more than `limit`.
  template <class Join>
  std::optional<AlpaCuts> cuts_within(Nanoseconds limit, const Join& join) const {
    return best_cuts(
        costs_.layers, stages_,
        [&](std::size_t s, std::size_t begin, std::size_t end) {
          const std::optional<Nanoseconds> time = times_[index(s, begin, end)];
          return time && *time <= limit ? time : std::nullopt;
        },
        join);
  }

  const PlanCosts& costs_;
  std::size_t stages_;
  std::int64_t more_;  // microbatches than one
  std::vector<std::optional<Nanoseconds>> times_;
};

}  // namespace

PlannerAnswer plan_alpa(const PlanCosts& costs, const PlannerOptions& options) {
  const std::vector<Mesh> all = whole_meshes(costs, costs.tensor_degrees);
  std::optional<PlannerAnswer> best;
  Nanoseconds least = kLongestTime;
  each_plan(costs, options, all, 1, 1, best, [&](ParallelPlan plan, const StageTable& table) {
    for (const StageRecompute recompute : table.levels()) {
      if (recompute == StageRecompute::attention) continue;
      // The largest is no less than the mean.
      const Nanoseconds whole = table.of(0, costs.layers, recompute).time();
      const auto stages = static_cast<std::int64_t>(plan.stages());
      if (whole + Nanoseconds{(microbatches_of(costs, plan) - 1) * whole.count / stages} >= least) continue;
      const AlpaStages candidates{costs, plan, table, recompute};
      const auto chosen = candidates.least(least);
      if (!chosen) continue;
      least = candidates.step(*chosen);
      plan.cuts = chosen->cuts;
      plan.recompute.assign(plan.stages(), recompute);
      best = {plan, static_cast<double>(least.count)};
    }
  });
  if (!best) refuse_all(costs, "alpa", all, 1);
  return *std::move(best);
}

}  // namespace trainyard
