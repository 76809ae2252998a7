#include "trainyard/plan/plan_moves.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/stage_cost.hpp"

namespace trainyard {

RatedPlan improve_plan(const PlanCosts& costs, const PlanSearchOptions& options, RatedPlan best,
                       std::uint64_t& evaluations) {
  const auto outcome = [&](const PlanStep& run) { return std::pair{run.excess(costs.memory), run.step}; };
  if (best.plan.recompute.empty()) best.plan.recompute.assign(best.plan.stages(), StageRecompute::no);
  std::vector<LayerCost> layers;
  for (std::size_t i = 0; i < costs.layers; ++i)
    layers.push_back(costs.layer(i, best.plan.samples_of(0), best.plan.degrees_of(0).tensor));
  const std::vector<StageRecompute> levels = recompute_levels(costs, layers);
  for (bool better_found = true; better_found;) {
    better_found = false;
    const auto offer = [&](ParallelPlan plan) {
      if (options.stop && options.stop()) return;
      ++evaluations;
      PlanStep run = run_plan(costs, plan);
      if (outcome(run) >= outcome(best.run)) return;
      best = {std::move(plan), std::move(run)};
      better_found = true;
    };
    for (std::size_t i = 0; i < best.plan.cuts.size(); ++i)
      for (const int by : {-1, 1}) {
        const std::size_t low = i > 0 ? best.plan.cuts[i - 1] : 0;
        const std::size_t high = i + 1 < best.plan.cuts.size() ? best.plan.cuts[i + 1] : costs.layers;
        const std::size_t to = best.plan.cuts[i] + static_cast<std::size_t>(by);
        if (to <= low || to >= high) continue;
        ParallelPlan plan = best.plan;
        plan.cuts[i] = to;
        offer(std::move(plan));
      }
    for (std::size_t s = 0; costs.memory && s < best.plan.stages(); ++s) {
      const std::size_t begin = s > 0 ? best.plan.cuts[s - 1] : 0,
                        own = (s < best.plan.cuts.size() ? best.plan.cuts[s] : costs.layers) - begin;
      const auto again = [&](const StageRecomputation& what) {
        if (best.plan.recompute[s] == what) return;
        ParallelPlan plan = best.plan;
        plan.recompute[s] = what;
        offer(std::move(plan));
      };
      for (const StageRecompute what : levels) again(what);
      const StageRecomputation now = best.plan.recompute[s];
      if (!options.by_layer || now.what == StageRecompute::no) continue;
      const std::size_t most = std::min(now.layers, own);
      again({now.what, most - 1});
      if (most + 1 < own) again({now.what, most + 1});
    }
  }
  return best;
}

std::vector<RatedPlan> moves_of(const PlanCosts& costs, const PlanSearchOptions& options, const ParallelPlan& plan) {
  std::vector<RatedPlan> moves;
  const auto offer = [&](const ParallelPlan& moved) {
    try {
      RatedPlan each{moved, run_plan(costs, moved)};
      if (each.run.excess(costs.memory) == Bytes{0}) moves.push_back(std::move(each));
    } catch (const InputError&) {  // what does not divide, or goes beyond the neighbouring cut
    }
  };
  ParallelPlan moved = plan;
  for (std::size_t& cut : moved.cuts)
    for (const std::size_t to : {cut - 1, cut + 1}) {
      const std::size_t from = std::exchange(cut, to);
      offer(moved);
      cut = from;
    }
  for (std::size_t s = 0; costs.memory && s < plan.recompute.size(); ++s) {
    const std::size_t layers = (s < plan.cuts.size() ? plan.cuts[s] : costs.layers) - (s > 0 ? plan.cuts[s - 1] : 0);
    const StageRecomputation now = plan.recompute[s];
    const std::size_t most = std::min(now.layers, layers);
    for (const StageRecompute what : {StageRecompute::no, StageRecompute::attention, StageRecompute::blocks})
      for (const std::size_t first : {most - 1, most, most + 1}) {
        moved.recompute[s] = {what, first < layers ? first : StageRecomputation::kAll};
        if (moved.recompute[s] != now) offer(moved);
      }
    moved.recompute[s] = now;
  }
  moved.microbatch = 2 * plan.microbatch;
  offer(moved);
  moved.microbatch = plan.microbatch / 2;
  offer(moved);
  moved.microbatch = plan.microbatch;
  moved.slices = plan.slices == 1 ? options.most_slices : 1;
  if (plan.stages() == 1 && plan.degrees.empty()) offer(moved);
  moved.slices = plan.slices;
  for (const std::size_t zero : std::initializer_list<std::size_t>{0, 1, 3}) {
    moved.zero = zero;
    if (zero != plan.zero && plan.replicas() > 1 && (zero < 3 || may_share_weights(plan))) offer(moved);
  }
  moved.zero = plan.zero;
  const Bytes bucket = plan.bucket > Bytes{0} ? plan.bucket : costs.bucket;
  for (const Bytes other : {Bytes{bucket.count * 2}, Bytes{bucket.count / 2}}) {
    if (plan.replicas() == 1 || other == Bytes{0}) continue;
    moved.bucket = other;
    offer(moved);
  }
  moved.bucket = plan.bucket;
  for (const PipelineSchedule schedule : options.schedules) {
    if (schedule == plan.schedule || plan.stages() == 1 || !plan.degrees.empty()) continue;
    moved.schedule = schedule;
    offer(moved);
  }
  std::ranges::stable_sort(moves, {}, [](const RatedPlan& each) { return each.run.step; });
  return moves;
}

std::vector<RatedPlan> bucket_sizes_of(const PlanCosts& costs, const ParallelPlan& plan) {
  std::vector<RatedPlan> sizes;
  if (plan.replicas() == 1) return sizes;
  const Bytes bucket = plan.bucket > Bytes{0} ? plan.bucket : costs.bucket;
  for (const std::int64_t eighths : {5, 6, 7, 9, 10, 12, 14}) {
    ParallelPlan other = plan;
    other.bucket = Bytes{bucket.count / 8 * eighths};
    if (other.bucket > Bytes{0}) sizes.push_back({other, run_plan(costs, other)});
  }
  return sizes;
}

}  // namespace trainyard
