#include "trainyard/plan/plan_fitting.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "trainyard/plan/plan_moves.hpp"

namespace trainyard {

Bytes estimated_when_full(const PlanStep& run, Bytes memory, Bytes spare) {
  const Bytes estimated = *std::ranges::max_element(run.peaks), peak = memory - spare;
  if (peak <= Bytes{0}) return estimated + spare;  // the fullest device is outside the plan
  const double ratio = static_cast<double>(memory.count) / static_cast<double>(peak.count);
  return std::min(estimated + spare, Bytes{static_cast<std::int64_t>(ratio * static_cast<double>(estimated.count))});
}

Fitting::Fitting(const PlanCosts& costs, const PlanSearchOptions& options, RatedPlan first, bool fill)
    : costs_(costs), options_(options), fill_(fill), tried_{std::move(first)} {
  options_.stop = {};
}

const RatedPlan* Fitting::next(std::optional<Bytes> spare) {
  if (!costs_.memory || !spare || tried_.size() > kMost || (*spare >= Bytes{0} && !fill_)) return nullptr;
  std::optional<RatedPlan> found = *spare < Bytes{0} ? smaller(*spare) : quicker(*spare);
  if (!found) return nullptr;
  tried_.push_back(*std::move(found));
  return &tried_.back();
}

bool Fitting::is_tried(const ParallelPlan& plan) const {
  return std::ranges::any_of(tried_, [&](const RatedPlan& each) { return each.plan == plan; });
}

std::optional<RatedPlan> Fitting::estimated(Bytes spare) const {
  PlanCosts full = costs_;
  full.memory = estimated_when_full(tried_.back().run, *costs_.memory, spare);
  std::uint64_t evaluations = 0;
  RatedPlan plan = improve_plan(full, options_, tried_.back(), evaluations);
  if (plan.run.excess(full.memory) > Bytes{0} || is_tried(plan.plan)) return std::nullopt;
  return plan;
}

std::optional<RatedPlan> Fitting::smaller(Bytes spare) const {
  if (std::optional<RatedPlan> plan = estimated(spare)) return plan;
  ParallelPlan all = tried_.back().plan;
  all.recompute.assign(all.stages(), StageRecompute::blocks);
  if (is_tried(all)) return std::nullopt;
  return RatedPlan{all, run_plan(costs_, all)};
}

std::optional<RatedPlan> Fitting::quicker(Bytes spare) const {
  const RatedPlan& last = tried_.back();
  if (last.plan.recomputing(StageRecompute::no) == last.plan.recompute.size()) return std::nullopt;
  std::optional<RatedPlan> best = estimated(spare);
  if (best && best->run.step < last.run.step) return best;
  best.reset();
  for (std::size_t s = 0; s < last.plan.stages(); ++s) {
    const StageRecomputation now = last.plan.recompute[s];
    if (now.what == StageRecompute::no) continue;
    ParallelPlan plan = last.plan;
    plan.recompute[s] = StageLayers{costs_, plan, s}.fewer(now);
    if (is_tried(plan)) continue;
    RatedPlan each{plan, run_plan(costs_, plan)};
    if (!best || each.run.step < best->run.step) best = std::move(each);
  }
  return best;
}

}  // namespace trainyard
