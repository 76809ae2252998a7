#include "trainyard/plan/planners/alpa.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

/// t_i of every stage that may be, of one mesh, microbatch and rematerialization.
class AlpaStages {
 public:
  AlpaStages(const PlanCosts& costs, const ParallelPlan& plan, std::size_t row, const StageTable& table,
             StageRecompute recompute)
      : layers_(costs.layers), row_(row), times_(row * layers_ * layers_, kLongestTime) {
    microbatches_ = static_cast<std::int64_t>(costs.batch / plan.data / plan.microbatch);
    const std::size_t shards = plan.zero > 0 ? plan.data : 1;
    for (std::size_t s = 0; s < row_; ++s)
      for (std::size_t begin = s; begin < layers_; ++begin)
        for (std::size_t end = begin + 1; end <= layers_ - (row_ - s - 1); ++end) {
          const StageCost& stage = table.of(begin, end, recompute);
          if (costs.memory && stage.memory(in_flight(costs, plan, row_, s), shards) > *costs.memory) continue;
          const Nanoseconds sum = plan.data > 1 ? costs.all_reduce(plan, s, stage.weights) : Nanoseconds{0};
          at(s, begin, end) = stage.time() + Nanoseconds{sum.count / microbatches_};
        }
  }

  Nanoseconds time(std::size_t s, std::size_t begin, std::size_t end) const {
    return times_[(s * layers_ + begin) * layers_ + end - 1];
  }
  Nanoseconds step(const ChosenCuts& chosen) const {
    Nanoseconds most{0};
    for (std::size_t s = 0, begin = 0; s < row_; ++s) {
      const std::size_t end = s < chosen.cuts.size() ? chosen.cuts[s] : layers_;
      most = std::max(most, time(s, begin, end));
      begin = end;
    }
    return chosen.value + (microbatches_ - 1) * most;
  }

  /// The cuts of the least T, where it is less than `best`.
  std::optional<ChosenCuts> least(Nanoseconds best, std::uint64_t& evaluations) const {
    const auto within = [&](Nanoseconds limit) {
      ++evaluations;
      return best_cuts(
          layers_, row_,
          [&](std::size_t s, std::size_t begin, std::size_t end) {
            const Nanoseconds own = time(s, begin, end);
            return own <= limit ? own : kLongestTime;
          },
          [](Nanoseconds sum, Nanoseconds own) { return sum + own; });
    };
    const auto any = within(kLongestTime);
    if (!any) return std::nullopt;
    const auto fastest = best_cuts(
        layers_, row_, [&](std::size_t s, std::size_t begin, std::size_t end) { return time(s, begin, end); },
        [](Nanoseconds most, Nanoseconds own) { return std::max(most, own); });
    std::vector<Nanoseconds> limits = times_;
    std::erase_if(limits, [&](Nanoseconds time) { return time < fastest->value || time == kLongestTime; });
    std::ranges::sort(limits);
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    std::optional<ChosenCuts> found;
    for (const Nanoseconds limit : limits) {
      if (any->value + (microbatches_ - 1) * limit >= best) break;
      auto chosen = within(limit);
      const Nanoseconds whole = step(*chosen);
      if (whole >= best) continue;
      best = whole;
      found = std::move(chosen);
    }
    return found;
  }

 private:
  Nanoseconds& at(std::size_t s, std::size_t begin, std::size_t end) {
    return times_[(s * layers_ + begin) * layers_ + end - 1];
  }

  std::size_t layers_, row_;
  std::int64_t microbatches_ = 1;
  std::vector<Nanoseconds> times_;
};

}  // namespace

PlannerAnswer plan_alpa(const PlanCosts& costs, const PlannerOptions& options) {
  const std::vector<Mesh> all = whole_meshes(costs, costs.tensor_degrees);
  std::optional<PlannerAnswer> best;
  Nanoseconds least = kLongestTime;
  std::uint64_t evaluations = 0;
  for (const TensorDegree tensor : costs.tensor_degrees)
    for (const std::size_t microbatch : divisors(costs.batch)) {
      std::optional<StageTable> table;
      for (const Mesh& mesh : all) {
        if (mesh.tensor != tensor || costs.batch / mesh.data % microbatch != 0) continue;
        if (best && options.stop && options.stop()) break;
        ParallelPlan plan = mesh.plan(microbatch, mesh.data > 1 ? 1 : 0);
        if (options.allowed && !options.allowed(plan)) continue;
        if (!table) table.emplace(costs, microbatch, tensor);
        for (const StageRecompute recompute : table->levels()) {
          if (recompute == StageRecompute::attention) continue;
          // The largest is no less than the mean.
          const Nanoseconds whole = table->of(0, costs.layers, recompute).time();
          const auto microbatches = static_cast<std::int64_t>(costs.batch / mesh.data / microbatch);
          if (whole + Nanoseconds{(microbatches - 1) * whole.count / static_cast<std::int64_t>(mesh.row)} >= least)
            continue;
          const AlpaStages stages{costs, plan, mesh.row, *table, recompute};
          const auto chosen = stages.least(least, evaluations);
          if (!chosen) continue;
          least = stages.step(*chosen);
          plan.cuts = chosen->cuts;
          plan.recompute.assign(mesh.row, recompute);
          best = {plan, static_cast<double>(least.count)};
        }
      }
    }
  if (!best) refuse_all(costs, "alpa", all, 1);
  best->evaluations = evaluations;
  return *std::move(best);
}

}  // namespace trainyard
