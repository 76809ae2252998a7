#include "trainyard/plan/planners/dapple.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

/// The dynamic program over cuts, for one mesh, microbatch size and recomputation.
class DappleCuts {
 public:
  DappleCuts(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table, StageRecompute recompute)
      : costs_(costs), plan_(plan), table_(table), recompute_(recompute) {}

  std::optional<ChosenCuts<Nanoseconds>> run() const {
    struct Prefix {
      std::vector<std::size_t> cuts;
      std::vector<DappleStage> stages;
      Nanoseconds latency = kLongestTime;
    };
    const std::size_t n = costs_.layers, row = plan_.stages();
    const auto m = static_cast<std::size_t>(microbatches_of(costs_, plan_));
    std::vector<Prefix> best(n + 1);
    best[0].latency = Nanoseconds{0};
    for (std::size_t s = 0; s < row; ++s) {
      std::vector<Prefix> next(n + 1);
      const std::size_t last = n - (row - s - 1);
      for (std::size_t begin = s; begin < n; ++begin) {
        if (best[begin].latency == kLongestTime) continue;
        for (std::size_t end = s + 1 == row ? n : begin + 1; end <= last; ++end) {
          if (!fits(costs_, plan_, s, table_.of(begin, end, recompute_))) continue;
          std::vector<DappleStage> stages = best[begin].stages;
          add(stages, s, begin, end, 1);
          const std::size_t planned = stages.size();
          if (end < n) add(stages, s + 1, end, n, row - s - 1);
          const Nanoseconds latency = dapple_latency(stages, m);
          if (latency >= next[end].latency) continue;
          stages.resize(planned);
          next[end] = {best[begin].cuts, std::move(stages), latency};
          if (end < n) next[end].cuts.push_back(end);
        }
      }
      best = std::move(next);
    }
    if (best[n].latency == kLongestTime) return std::nullopt;
    return ChosenCuts<Nanoseconds>{best[n].cuts, best[n].latency};
  }

 private:
  /// Appends the cut before a stage, and the stage on `times` the devices of one stage.
  void add(std::vector<DappleStage>& stages, std::size_t s, std::size_t begin, std::size_t end,
           std::size_t times) const {
    if (s > 0) {
      const CutTransfers sent = cut_transfers(costs_, plan_, table_, s, begin);
      stages.push_back({sent.forward, sent.backward, Nanoseconds{0}});
    }
    const StageCost& stage = table_.of(begin, end, recompute_);
    const auto share = static_cast<std::int64_t>(times);
    stages.push_back({Nanoseconds{stage.forward.count / share}, Nanoseconds{stage.backward().count / share},
                      plan_.data > 1 ? costs_.all_reduce(plan_, s, stage.weights) : Nanoseconds{0}});
  }

  const PlanCosts& costs_;
  const ParallelPlan& plan_;
  const StageTable& table_;
  const StageRecompute recompute_;
};

}  // namespace

Nanoseconds dapple_latency(const std::vector<DappleStage>& stages, std::size_t microbatches) {
  const auto more = static_cast<std::int64_t>(microbatches) - 1;
  const auto passes = [&](std::size_t s) { return stages[s].forward + stages[s].backward; };
  std::size_t pivot = stages.size() - 1;
  Nanoseconds between{0};  // passes of the stages strictly between s and the pivot
  for (std::size_t s = pivot; s-- > 0;) {
    if (more * passes(s) > more * passes(pivot) + between) {
      pivot = s;
      between = Nanoseconds{0};
    } else {
      between += passes(s);
    }
  }
  Nanoseconds before{0}, back{0}, end = stages[pivot].reduce + stages[pivot].backward;
  for (std::size_t s = 0; s <= pivot; ++s) before += stages[s].forward;
  for (std::size_t s = pivot + 1; s-- > 0;) {
    back += stages[s].backward;
    end = std::max(end, stages[s].reduce + back);
  }
  back = stages[pivot].backward;
  for (std::size_t s = pivot + 1; s < stages.size(); ++s) {
    back += stages[s].backward;
    end = std::max(end, stages[s].reduce - back);
  }
  return before + more * passes(pivot) + end;
}

PlannerAnswer plan_dapple(const PlanCosts& costs, const PlannerOptions& options) {
  const std::vector<Mesh> all = whole_meshes(costs, {{1}});
  std::optional<PlannerAnswer> best;
  each_plan(costs, options, all, 0, 0, best, [&](ParallelPlan plan, const StageTable& table) {
    for (const StageRecompute recompute : table.levels()) {
      if (recompute == StageRecompute::attention) continue;
      const auto chosen = DappleCuts{costs, plan, table, recompute}.run();
      if (!chosen) continue;
      plan.cuts = chosen->cuts;
      plan.recompute.assign(plan.stages(), recompute);
      keep_better(best, {plan, static_cast<double>(chosen->value.count)});
      break;
    }
  });
  if (!best) refuse_all(costs, "dapple", all, 0);
  return *std::move(best);
}

}  // namespace trainyard
