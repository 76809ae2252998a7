#include "trainyard/plan/plan_moves.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/stage_choices.hpp"
#include "trainyard/plan/stage_cost.hpp"

namespace trainyard {
namespace {

/// Whether recomputation at this level repeats or frees anything of the layer.
bool repeats(const LayerCost& layer, StageRecompute what) {
  return again_of(layer, what) > Nanoseconds{0} || held_of(layer, what) < layer.saved;
}

/// The plan with each of these bucket sizes except its own.
std::vector<RatedPlan> with_buckets(const PlanCosts& costs, const ParallelPlan& plan, const std::vector<Bytes>& sizes) {
  std::vector<RatedPlan> plans;
  ParallelPlan other = plan;
  for (const Bytes size : sizes) {
    other.bucket = size;
    if (plan.has_replicas() && size > Bytes{0} && other != plan) plans.push_back({other, run_plan(costs, other)});
  }
  return plans;
}

}  // namespace

StageLayers::StageLayers(const PlanCosts& costs, const ParallelPlan& plan, std::size_t stage) {
  const std::size_t device = device_of(plan.schedule, stage, plan.devices_in_row()),
                    end = stage < plan.cuts.size() ? plan.cuts[stage] : costs.layers;
  for (std::size_t i = stage > 0 ? plan.cuts[stage - 1] : 0; i < end; ++i)
    layers_.push_back(costs.layer(i, plan.samples_of(device), costs.degree_of(plan, device)));
}

std::vector<StageRecompute> StageLayers::levels() const {
  std::vector<StageRecompute> levels{StageRecompute::no};
  for (const StageRecompute what : {StageRecompute::attention, StageRecompute::blocks})
    if (std::ranges::any_of(layers_, [&](const LayerCost& layer) { return repeats(layer, what); }))
      levels.push_back(what);
  return levels;
}

StageRecomputation StageLayers::fewer(StageRecomputation now) const {
  std::size_t count = std::min(now.layers, layers_.size());
  while (count > 0 && !repeats(layers_[count - 1], now.what)) --count;
  return {now.what, count > 0 ? count - 1 : 0};
}

StageRecomputation StageLayers::more(StageRecomputation now) const {
  std::size_t count = std::min(now.layers, layers_.size());
  while (count < layers_.size() && !repeats(layers_[count], now.what)) ++count;
  return {now.what, count + 1 < layers_.size() ? count + 1 : StageRecomputation::kAll};
}

RatedPlan rated(const PlanCosts& costs, ParallelPlan plan, std::uint64_t& evaluations) {
  ++evaluations;
  PlanStep run = run_plan(costs, plan);
  return {std::move(plan), std::move(run)};
}

void each_move_of_cuts(const PlanCosts& costs, const ParallelPlan& plan,
                       const std::function<void(ParallelPlan)>& offer) {
  for (std::size_t i = 0; i < plan.cuts.size(); ++i)
    for (const int by : {-1, 1}) {
      const std::size_t low = i > 0 ? plan.cuts[i - 1] : 0;
      const std::size_t high = i + 1 < plan.cuts.size() ? plan.cuts[i + 1] : costs.layers;
      const std::size_t to = plan.cuts[i] + static_cast<std::size_t>(by);
      if (to <= low || to >= high) continue;
      ParallelPlan moved = plan;
      moved.cuts[i] = to;
      offer(std::move(moved));
    }
}

void each_move_of_degrees(const ParallelPlan& plan, const std::vector<StageDegrees>& choices,
                          const std::function<void(ParallelPlan)>& offer) {
  for (std::size_t i = 0; i < plan.stages(); ++i) {
    for (const StageDegrees& choice : choices) {
      ParallelPlan moved = plan;
      if (std::exchange(moved.degrees[i], choice) == choice) continue;
      offer(moved);
      // Moves devices from stage j to stage i.
      for (std::size_t j = 0; j < plan.stages(); ++j)
        for (const StageDegrees& other : choices) {
          if (j == i || other == plan.degrees[j] || choice.devices() <= plan.degrees[i].devices() ||
              choice.devices() + other.devices() != plan.degrees[i].devices() + plan.degrees[j].devices())
            continue;
          ParallelPlan both = moved;
          both.degrees[j] = other;
          offer(std::move(both));
        }
    }
    for (std::size_t j = i + 1; j < plan.stages(); ++j) {
      if (plan.degrees[i] == plan.degrees[j]) continue;
      ParallelPlan moved = plan;
      std::swap(moved.degrees[i], moved.degrees[j]);
      offer(std::move(moved));
    }
  }
}

bool all_alike(const std::vector<StageDegrees>& degrees) {
  return std::ranges::all_of(degrees, [&](const StageDegrees& each) { return each == degrees.front(); });
}

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
      RatedPlan each = rated(costs, std::move(plan), evaluations);
      if (outcome(each.run) >= outcome(best.run)) return;
      best = std::move(each);
      better_found = true;
    };
    each_move_of_cuts(costs, best.plan, offer);
    for (std::size_t s = 0; costs.memory && s < best.plan.stages(); ++s) {
      const auto again = [&](const StageRecomputation& what) {
        if (best.plan.recompute[s] == what) return;
        ParallelPlan plan = best.plan;
        plan.recompute[s] = what;
        offer(std::move(plan));
      };
      for (const StageRecompute what : levels) again(what);
      const StageRecomputation now = best.plan.recompute[s];
      if (!options.by_layer || now.what == StageRecompute::no) continue;
      const StageLayers stage{costs, best.plan, s};
      again(stage.fewer(now));
      again(stage.more(now));
    }
  }
  return best;
}

std::vector<RatedPlan> moves_of(const PlanCosts& costs, const PlanSearchOptions& options, const ParallelPlan& plan) {
  std::vector<RatedPlan> moves;
  std::vector<ParallelPlan> offered{plan};
  const auto offer = [&](const ParallelPlan& moved) {
    if (std::ranges::find(offered, moved) != offered.end()) return;
    offered.push_back(moved);
    try {
      RatedPlan each{moved, run_plan(costs, moved)};
      if (each.run.excess(costs.memory) == Bytes{0}) moves.push_back(std::move(each));
    } catch (const InputError&) {  // degrees do not divide, or the cut passes its neighbour
    }
  };
  ParallelPlan moved = plan;
  for (std::size_t& cut : moved.cuts)
    for (const std::size_t to : {cut - 1, cut + 1, cut - 2, cut + 2}) {
      const std::size_t from = std::exchange(cut, to);
      offer(moved);
      cut = from;
    }
  for (std::size_t s = 0; costs.memory && s < plan.recompute.size(); ++s) {
    const StageRecomputation now = plan.recompute[s];
    const StageLayers stage{costs, plan, s};
    for (const StageRecompute what : stage.levels()) {
      const StageRecomputation as_many{what, now.layers};
      for (const StageRecomputation& other : {stage.fewer(as_many), as_many, stage.more(as_many)}) {
        moved.recompute[s] = other;
        offer(moved);
      }
    }
    moved.recompute[s] = now;
  }
  for (std::size_t i = 0; i < plan.degrees.size(); ++i) {
    const std::size_t devices = plan.degrees[i].devices();
    for (const LayerDegree& degree : costs.layer_degrees) {
      if (degree.context * degree.experts > 1 || devices % degree.ranks != 0) continue;
      moved.degrees[i] = {devices / degree.ranks, degree};
      offer(moved);
    }
    moved.degrees[i] = plan.degrees[i];
  }
  moved.microbatch = 2 * plan.microbatch;
  offer(moved);
  moved.microbatch = plan.microbatch / 2;
  offer(moved);
  moved.microbatch = plan.microbatch;
  moved.slices = plan.slices == 1 ? options.most_slices : 1;
  if (plan.stages() == 1 && plan.degrees.empty() && plan.zero <= most_zero(options, moved)) offer(moved);
  moved.slices = plan.slices;
  for (const std::size_t zero : std::initializer_list<std::size_t>{0, 1, 2, 3}) {
    moved.zero = zero;
    if (zero != plan.zero && zero <= most_zero(options, plan)) offer(moved);
  }
  moved.zero = plan.zero;
  moved.sequence = !plan.sequence;
  LayerDegree whole = moved.layer_degree();
  whole.slices = 1;
  if (std::ranges::find(costs.layer_degrees, whole) != costs.layer_degrees.end()) offer(moved);
  moved.sequence = plan.sequence;
  const Bytes bucket = plan.bucket > Bytes{0} ? plan.bucket : costs.bucket;
  for (const Bytes other : {Bytes{bucket.count * 2}, Bytes{bucket.count / 2}}) {
    if (!plan.has_replicas() || other == Bytes{0}) continue;
    moved.bucket = other;
    offer(moved);
  }
  moved.bucket = plan.bucket;
  for (const PipelineSchedule schedule : options.schedules) {
    if (plan.stages() == 1 || !plan.degrees.empty() || plan.microbatch * plan.data == costs.batch) continue;
    moved.schedule = schedule;
    offer(moved);
  }
  sort_by(moves, [](const RatedPlan& each) { return each.run.step; });
  return moves;
}

std::vector<RatedPlan> stage_moves_of(const PlanCosts& costs, const ParallelPlan& plan) {
  std::vector<RatedPlan> moves;
  if (plan.schedule != PipelineSchedule::one_f_one_b || plan.slices * plan.context * plan.experts > 1) return moves;
  ParallelPlan base = plan;
  if (base.degrees.empty()) {
    base.degrees.assign(plan.stages(), plan.degrees_of(0));
    base.microbatch = plan.microbatch * plan.data;
    base.data = base.tensor = 1;
    base.sequence = false;
  }
  const std::vector<StageDegrees> choices = degrees_of_stages(costs, base.microbatch);
  const auto offer = [&](ParallelPlan moved) {
    if (moved.devices() > costs.devices || all_alike(moved.degrees)) return;
    if (!moved.has_replicas()) moved.zero = 0, moved.bucket = Bytes{0};
    RatedPlan each{std::move(moved), {}};
    each.run = run_plan(costs, each.plan);
    if (each.run.excess(costs.memory) == Bytes{0}) moves.push_back(std::move(each));
  };
  each_move_of_degrees(base, choices, offer);
  for (std::size_t s = 0; s < base.stages(); ++s) {
    const auto at = static_cast<std::ptrdiff_t>(s);
    const std::size_t devices = base.degrees[s].devices(), begin = s > 0 ? base.cuts[s - 1] : 0,
                      end = s < base.cuts.size() ? base.cuts[s] : costs.layers;
    for (const StageDegrees& one : choices) {
      ParallelPlan moved = base;
      moved.degrees[s] = one;
      if (s + 1 < base.stages() && one.devices() <= devices + base.degrees[s + 1].devices()) {
        ParallelPlan joined = moved;
        joined.degrees.erase(joined.degrees.begin() + at + 1);
        joined.cuts.erase(joined.cuts.begin() + at);
        if (!joined.recompute.empty()) joined.recompute.erase(joined.recompute.begin() + at + 1);
        offer(std::move(joined));
      }
      moved.degrees.insert(moved.degrees.begin() + at, one);
      moved.cuts.insert(moved.cuts.begin() + at, begin);
      if (!moved.recompute.empty()) moved.recompute.insert(moved.recompute.begin() + at, base.recompute[s]);
      for (const StageDegrees& other : choices) {
        if (one.devices() + other.devices() != devices) continue;
        moved.degrees[s + 1] = other;
        for (moved.cuts[s] = begin + 1; moved.cuts[s] < end; ++moved.cuts[s]) offer(moved);
      }
    }
  }
  sort_by(moves, [](const RatedPlan& each) { return each.run.step; });
  return moves;
}

std::vector<RatedPlan> bucket_sizes_of(const PlanCosts& costs, const ParallelPlan& plan) {
  const Bytes bucket = plan.bucket > Bytes{0} ? plan.bucket : costs.bucket;
  std::vector<Bytes> sizes;
  for (const std::int64_t eighths : {5, 6, 7, 9, 10, 12, 14}) sizes.push_back(Bytes{bucket.count / 8 * eighths});
  return with_buckets(costs, plan, sizes);
}

std::vector<RatedPlan> distant_bucket_sizes_of(const PlanCosts& costs, const ParallelPlan& plan, bool finely) {
  std::vector<Bytes> sizes;
  for (std::int64_t hundredths = 100; hundredths >= 2; hundredths = hundredths * (finely ? 71 : 50) / 100)
    sizes.push_back(Bytes{costs.bucket.count / 100 * hundredths});
  return with_buckets(costs, plan, sizes);
}

std::vector<RatedPlan> zero_stages_of(const PlanCosts& costs, const ParallelPlan& plan) {
  std::vector<RatedPlan> stages;
  ParallelPlan other = plan;
  if (!plan.has_replicas()) return stages;
  for (other.zero = 0; other.zero <= 3; ++other.zero)
    if (other != plan) stages.push_back({other, run_plan(costs, other)});
  return stages;
}

}  // namespace trainyard
