#include "trainyard/place/talos/talos.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/judge/completion_evaluator.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/place/judge/retreat.hpp"
#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/place/talos/pack_run.hpp"

namespace trainyard {
namespace {

/// Turn of each model: all at once, or pair by pair.
IdMap<ModelId, std::size_t> turns(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups,
                                  TalosOptions::Together together) {
  IdMap<ModelId, std::size_t> turn(models.size(), 0);
  if (together == TalosOptions::Together::all || models.size() < 2) return turn;
  std::vector<std::tuple<double, ModelId, ModelId>> pairs;
  for (const ModelId a : turn.ids())
    for (const ModelId b : turn.ids()) {
      if (b <= a) continue;
      const double affinity = model_affinity(problem, models, speedups, a, b);
      if (affinity > kCoPlacedAffinity) pairs.emplace_back(-affinity, a, b);
    }
  std::ranges::sort(pairs);
  IdMap<ModelId, std::int64_t> work(models.size(), 0);
  for (const OpId op : problem.ops()) work[models.of[op]] += problem.shortest(op).count;
  struct Party {
    std::int64_t work;
    std::vector<ModelId> models;
  };
  std::vector<Party> parties;
  std::vector<bool> paired(models.size(), false);
  for (const auto& [affinity, a, b] : pairs) {
    if (paired[a.index()] || paired[b.index()]) continue;
    paired[a.index()] = paired[b.index()] = true;
    parties.push_back({work[a] + work[b], {a, b}});
  }
  for (const ModelId model : turn.ids())
    if (!paired[model.index()]) parties.push_back({work[model], {model}});
  // The least mean work of a model goes first, since all models of later turns wait for it.
  sort_by(parties, [](const Party& party) {
    return static_cast<double>(party.work) / static_cast<double>(party.models.size());
  });
  for (std::size_t i = 0; i < parties.size(); ++i)
    for (const ModelId model : parties[i].models) turn[model] = i;
  return turn;
}

Packs single_packs(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups) {
  return pack_ops(problem, models, speedups, {.most = Nanoseconds{0}});
}

/// The plan's schedule with that of three orders that has the best sum of completion times.
Retreat<CompletionOutcome> best_by_completion(CompletionEvaluator& evaluator, const AnalyticPlan& plan,
                                              const std::vector<OpId>& taken, const std::function<bool()>& stop) {
  std::optional<CompletionOutcome> best;
  Schedule chosen;
  for (const PlanOrder order : {PlanOrder::rank, PlanOrder::start, PlanOrder::strict}) {
    if (best && stop && stop()) break;
    Schedule schedule = plan.schedule();
    set_order(evaluator.problem(), taken, order, schedule);
    const CompletionOutcome outcome = evaluator.outcome(schedule);
    if (best && outcome >= *best) continue;
    best = outcome;
    chosen = std::move(schedule);
  }
  return {std::move(chosen), *best, best->excess == Bytes{0} && !plan.memory_bound()};
}

}  // namespace

Schedule talos(const Problem& problem, const TalosOptions& options) {
  const Models models = find_models(problem.graph());
  const IdMap<OpId, double> speedups = op_speedups(problem);
  const Packs packs =
      options.packing ? pack_ops(problem, models, speedups, options.packs) : single_packs(problem, models, speedups);
  const auto turn = turns(problem, models, speedups, options.together);
  CompletionEvaluator evaluator{problem, models};
  return best_retreat([&](int memory_percent) {
    AnalyticPlan plan{problem, false, memory_percent, Checkpoint{options.stop}};
    const std::vector<OpId> taken = PackRun{problem, models, packs, turn, options.cost, plan}.run();
    return best_by_completion(evaluator, plan, taken, options.stop);
  });
}

}  // namespace trainyard
