#include "trainyard/plan/planners/alpa.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/plan/planners/meshes.hpp"
#include "trainyard/plan/stage_choices.hpp"

namespace trainyard {
namespace {

using AlpaCuts = ChosenCuts<Nanoseconds>;

/// t_i of every possible stage, for one mesh, microbatch size and rematerialization.
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

  /// The step T.
  Nanoseconds step(const AlpaCuts& chosen) const {
    Nanoseconds most{0};
    const std::vector<StageRange> ranges = ranges_of(costs_, chosen.cuts);
    for (std::size_t s = 0; s < stages_; ++s) most = std::max(most, *times_[index(s, ranges[s].begin, ranges[s].end)]);
    return chosen.value + more_ * most;
  }

  /// The cuts with the least T, if it is less than `best`.
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
  /// The best cuts with t_i <= `limit` for all stages.
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
  std::int64_t more_;  // microbatches after the first: B - 1
  std::vector<std::optional<Nanoseconds>> times_;
};

/// Search over stages with different submeshes, for one microbatch size and rematerialization.
class AlpaSubmeshes {
 public:
  AlpaSubmeshes(const PlanCosts& costs, std::vector<StageChoice> choices, std::size_t microbatch,
                StageRecompute recompute)
      : costs_(costs),
        choices_(std::move(choices)),
        microbatch_(microbatch),
        recompute_(recompute),
        microbatches_(static_cast<std::int64_t>(costs.batch / microbatch)),
        rest_(least_work(costs, choices_, recompute)) {}

  /// Plans with T < `limit`, least T first: the Pareto front of sum and t_max per state, so the least T is among them.
  std::vector<PlannerAnswer> less_than(Nanoseconds limit) {
    if (choices_.empty() || static_cast<double>(microbatches_) * rest_.back() / static_cast<double>(costs_.devices) >=
                                static_cast<double>(limit.count))
      return {};
    std::vector<std::vector<Stages>> next(costs_.layers * (costs_.devices + 1));
    extend({.begin = costs_.layers, .left = costs_.devices, .after = kNone, .alike = true}, kNone, 0, limit, next);
    std::vector<std::size_t> whole;
    for (std::size_t behind = 1, from = 0;; ++behind) {
      collect(next, known_, whole);
      const std::size_t to = known_.size();
      if (from == to) break;
      for (; from < to; ++from)
        if (known_[from].begin > 0) extend(known_[from], from, behind, limit, next);
    }
    sort_by(whole, [&](std::size_t at) { return step(known_[at]); });
    std::vector<PlannerAnswer> answers;
    for (const std::size_t at : whole) answers.push_back({plan_of(at), static_cast<double>(step(known_[at]).count)});
    return answers;
  }

 private:
  /// Partial plan: the stages from one on.
  struct Stages {
    std::size_t begin, left, after, choice;  // first layer, devices left, index without the first stage, its degrees
    Nanoseconds sum, most;                   // of t_i
    bool alike;                              // equal degrees
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Nanoseconds step(const Stages& stages) const { return stages.sum + (microbatches_ - 1) * stages.most; }

  void extend(const Stages& stages, std::size_t at, std::size_t behind, Nanoseconds limit,
              std::vector<std::vector<Stages>>& next) const {
    ParallelPlan around{.degrees = {{.data = 0}, {}}, .cuts = {1}, .microbatch = microbatch_, .zero = 1};
    const auto in_flight = std::min(static_cast<std::size_t>(microbatches_), behind + 1);
    for (std::size_t c = 0; c < choices_.size(); ++c) {
      const auto& [degrees, table, from] = choices_[c];
      if (degrees.devices() > stages.left) continue;
      const std::size_t left = stages.left - degrees.devices();
      around.degrees = {{.data = left}, degrees};
      const bool alike = stages.alike && (behind == 0 || stages.choice == c);
      for (std::size_t begin = stages.begin; begin-- > 0;) {
        const StageCost& stage = table->of(begin, stages.begin, recompute_);
        if (microbatches_ * stage.time() >= limit) break;
        if ((begin == 0) != (left == 0) || (begin == 0 && alike) ||
            (costs_.memory && stage.memory(in_flight, {around.zero, degrees.data}, microbatches_ > 1) > *costs_.memory))
          continue;
        Nanoseconds time = stage.time();
        if (degrees.data > 1) time += Nanoseconds{costs_.all_reduce(around, 1, stage.weights).count / microbatches_};
        const Stages longer{begin, left, at, c, stages.sum + time, std::max(stages.most, time), alike};
        // Lower bound for the remaining layers: spread over all remaining devices.
        const double rest = left > 0 ? rest_[begin] / static_cast<double>(left) : 0;
        const auto most = std::max(static_cast<double>(longer.most.count), rest);
        if (static_cast<double>(longer.sum.count) + rest + static_cast<double>(microbatches_ - 1) * most >=
            static_cast<double>(limit.count))
          continue;
        std::vector<Stages>& front = next[begin * (costs_.devices + 1) + left];
        if (std::ranges::any_of(front,
                                [&](const Stages& each) { return each.sum <= longer.sum && each.most <= longer.most; }))
          continue;
        std::erase_if(front, [&](const Stages& each) { return longer.sum <= each.sum && longer.most <= each.most; });
        front.push_back(longer);
      }
    }
  }

  ParallelPlan plan_of(std::size_t at) const {
    ParallelPlan plan{.microbatch = microbatch_, .zero = 1};
    for (; at != kNone; at = known_[at].after) {
      if (known_[at].begin > 0) plan.cuts.push_back(known_[at].begin);
      plan.degrees.push_back(choices_[known_[at].choice].degrees);
      plan.recompute.push_back(recompute_);
    }
    if (std::ranges::all_of(plan.degrees, [](const StageDegrees& each) { return each.data == 1; })) plan.zero = 0;
    return plan;
  }

  const PlanCosts& costs_;
  const std::vector<StageChoice> choices_;
  const std::size_t microbatch_;
  const StageRecompute recompute_;
  const std::int64_t microbatches_;
  const std::vector<double> rest_;
  std::vector<Stages> known_;
};

}  // namespace

PlannerAnswer plan_alpa(const PlanCosts& costs, const PlannerOptions& options) {
  const std::vector<Mesh> all = whole_meshes(costs, costs.layer_degrees);
  std::optional<PlannerAnswer> best;
  Nanoseconds least = kLongestTime;
  each_plan(costs, options, all, 1, 1, best, [&](ParallelPlan plan, const StageTable& table) {
    for (const StageRecompute recompute : table.levels()) {
      if (recompute == StageRecompute::attention) continue;
      // Lower bound on T: the largest t_i is at least the mean.
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
  if (options.stage_degrees) {
    StageChoices stages{costs};
    for (const std::size_t microbatch : divisors(costs.batch)) {
      const std::vector<StageChoice> choices = stages.of(microbatch);
      for (const StageRecompute recompute : {StageRecompute::no, StageRecompute::blocks}) {
        if (best && options.stop && options.stop()) break;
        if (recompute == StageRecompute::blocks && !costs.memory) continue;
        for (PlannerAnswer& each : AlpaSubmeshes{costs, choices, microbatch, recompute}.less_than(least)) {
          if (options.allowed && !options.allowed(each.plan)) continue;
          least = Nanoseconds{static_cast<std::int64_t>(each.objective)};
          best = std::move(each);
          break;
        }
      }
    }
  }
  if (!best) refuse_all(costs, "alpa", all, 1);
  return *std::move(best);
}

}  // namespace trainyard
