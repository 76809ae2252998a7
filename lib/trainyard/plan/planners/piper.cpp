#include "trainyard/plan/planners/piper.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/planners/meshes.hpp"
#include "trainyard/plan/stage_choices.hpp"

namespace trainyard {
namespace {

struct PiperCandidate {
  Mesh mesh;
  std::size_t microbatch;
  double least;  // lower bound on the time per sample of any cuts
};

/// The cuts with the least maximum load; nothing if none fit in memory.
std::optional<ChosenCuts<Nanoseconds>> piper_cuts(const PlanCosts& costs, const ParallelPlan& plan,
                                                  const StageTable& table) {
  std::vector<Nanoseconds> sent;  // transfers over a cut, by the stage and the layer after it
  for (std::size_t s = 1; s < plan.stages(); ++s)
    for (std::size_t at = 0; at < costs.layers; ++at) {
      const CutTransfers both = at > 0 ? cut_transfers(costs, plan, table, s, at) : CutTransfers{};
      sent.push_back(both.forward + both.backward);
    }
  const auto load = [&](std::size_t s, std::size_t begin, std::size_t end) -> std::optional<Nanoseconds> {
    const auto level = least_recompute(costs, plan, table, s, {begin, end});
    if (!level) return std::nullopt;
    const StageCost& stage = table.of(begin, end, *level);
    Nanoseconds time = stage.time();
    if (s > 0) time += sent[(s - 1) * costs.layers + begin];
    if (s + 1 < plan.stages()) time += sent[s * costs.layers + end];
    if (plan.data > 1)
      time += Nanoseconds{2 * costs.all_reduce(plan, s, stage.weights).count / microbatches_of(costs, plan)};
    return time;
  };
  return best_cuts(costs.layers, plan.stages(), load, [](Nanoseconds a, Nanoseconds b) { return std::max(a, b); });
}

/// Search over stages with different degrees, for one microbatch size, which the replicas of a stage divide.
class PiperStages {
 public:
  PiperStages(const PlanCosts& costs, std::vector<StageChoice> choices, std::size_t microbatch)
      : costs_(costs),
        choices_(std::move(choices)),
        microbatch_(microbatch),
        microbatches_(costs.batch / microbatch),
        rest_(least_work(costs, choices_, StageRecompute::no)),
        next_(costs.layers * (costs.devices + 1) * choices_.size()) {}

  /// Plans with a time per sample below `limit`, in ascending order.
  std::vector<PlannerAnswer> less_than(double limit) {
    limit_ = limit * static_cast<double>(microbatch_);
    if (rest_.back() / static_cast<double>(costs_.devices) >= limit_) return {};
    extend({.begin = costs_.layers, .left = costs_.devices}, kNone, 0);
    std::vector<std::size_t> whole;
    for (std::size_t behind = 1, from = 0; behind <= microbatches_; ++behind) {
      collect(next_, known_, whole);
      const std::size_t to = known_.size();
      if (from == to) break;
      for (; behind < microbatches_ && from < to; ++from)
        if (known_[from].begin > 0) extend(known_[from], from, behind);
    }
    const auto load = [&](std::size_t at) { return std::max(known_[at].own, known_[at].most); };
    sort_by(whole, load);
    std::vector<PlannerAnswer> answers;
    for (const std::size_t at : whole) {
      ParallelPlan plan = plan_of(at);
      if (std::ranges::count(plan.degrees, plan.degrees.front()) < static_cast<std::ptrdiff_t>(plan.stages()))
        answers.push_back({std::move(plan), static_cast<double>(load(at).count) / static_cast<double>(microbatch_)});
    }
    return answers;
  }

 private:
  /// Partial plan: the stages from one on.
  struct Stages {
    std::size_t begin, left, after, choice;  // first layer, devices left, index without the first stage, its degrees
    StageRecompute recompute;                // of the first stage
    Nanoseconds own, most;  // load of the first stage without the cut before it; largest load of the others
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void extend(const Stages stages, std::size_t at, std::size_t behind) {
    ParallelPlan around{.degrees = {{}, {}}, .cuts = {1}, .microbatch = microbatch_};
    const std::size_t end = stages.begin;
    if (behind > 0) around.cuts.push_back(2);
    for (std::size_t c = 0; c < choices_.size(); ++c) {
      const auto& [degrees, table, from] = choices_[c];
      if (degrees.devices() > stages.left) continue;
      const std::size_t left = stages.left - degrees.devices();
      around.degrees = {{.data = left}, degrees};
      Nanoseconds sent{0};
      if (behind > 0) {
        const StageChoice& after = choices_[stages.choice];
        around.degrees.push_back(after.degrees);
        const CutTransfers both = cut_transfers(costs_, around, *table, *after.stages, 2, end);
        sent = both.forward + both.backward;
      }
      const Nanoseconds most = std::max(stages.most, behind > 0 ? stages.own + sent : Nanoseconds{0});
      if (static_cast<double>(most.count) >= limit_) continue;
      for (std::size_t begin = left > 0 ? end : std::min<std::size_t>(end, 1); begin-- > 0;) {
        // Some remaining stage has at least the mean of the remaining work.
        if (left > 0 && rest_[begin] / static_cast<double>(left) >= limit_) continue;
        const auto level = least_recompute(costs_, choices_[c], begin, end, std::min(microbatches_, behind + 1),
                                           microbatches_ > 1, 0, false);
        if (!level) break;
        const StageCost& stage = table->of(begin, end, *level);
        Nanoseconds own = stage.time() + sent;
        if (degrees.data > 1)
          own += Nanoseconds{2 * costs_.all_reduce(around, 1, stage.weights).count /
                             static_cast<std::int64_t>(microbatches_)};
        if (static_cast<double>(own.count) >= limit_) break;
        std::vector<Stages>& front = next_[(begin * (costs_.devices + 1) + left) * choices_.size() + c];
        const auto no_worse = [](const Stages& a, const Stages& b) { return a.own <= b.own && a.most <= b.most; };
        const Stages longer{begin, left, at, c, level->what, own, most};
        if (std::ranges::any_of(front, [&](const Stages& each) { return no_worse(each, longer); })) continue;
        std::erase_if(front, [&](const Stages& each) { return no_worse(longer, each); });
        front.push_back(longer);
      }
    }
  }

  ParallelPlan plan_of(std::size_t at) const {
    ParallelPlan plan{.microbatch = microbatch_};
    for (; at != kNone; at = known_[at].after) {
      if (known_[at].begin > 0) plan.cuts.push_back(known_[at].begin);
      plan.degrees.push_back(choices_[known_[at].choice].degrees);
      plan.recompute.push_back(known_[at].recompute);
    }
    return plan;
  }

  const PlanCosts& costs_;
  const std::vector<StageChoice> choices_;
  const std::size_t microbatch_, microbatches_;
  const std::vector<double> rest_;
  double limit_ = 0;
  std::vector<std::vector<Stages>> next_;  // by first layer, devices left and choice
  std::vector<Stages> known_;
};

}  // namespace

PlannerAnswer plan_piper(const PlanCosts& costs, const PlannerOptions& options) {
  std::vector<Mesh> all = meshes(costs, costs.layer_degrees);
  std::erase_if(all, [&](const Mesh& mesh) { return mesh.row * mesh.data > costs.batch; });
  std::map<std::pair<std::size_t, LayerDegree>, Nanoseconds> whole;  // a microbatch through all layers
  std::vector<PiperCandidate> candidates;
  for (const Mesh& mesh : all)
    for (const std::size_t microbatch : divisors(costs.batch / mesh.data)) {
      if (mesh.row * mesh.data > costs.batch / microbatch) continue;
      ParallelPlan plan = mesh.plan(microbatch);
      if (options.allowed && !options.allowed(plan)) continue;
      const auto [at, added] = whole.try_emplace({microbatch, mesh.tensor}, Nanoseconds{0});
      for (std::size_t i = 0; added && i < costs.layers; ++i) {
        const LayerCost layer = costs.layer(i, microbatch, mesh.tensor);
        at->second += layer.forward + layer.input_gradient + layer.weight_gradient + layer.accumulation;
      }
      candidates.push_back(
          {mesh, microbatch,
           static_cast<double>(at->second.count) / static_cast<double>(mesh.row * mesh.data * microbatch)});
    }
  sort_by(candidates, &PiperCandidate::least);
  std::optional<PlannerAnswer> best;
  std::map<std::pair<std::size_t, LayerDegree>, StageTable> tables;
  for (const PiperCandidate& candidate : candidates) {
    const Mesh& mesh = candidate.mesh;
    if (best && (candidate.least >= best->objective || (options.stop && options.stop()))) break;
    ParallelPlan plan = mesh.plan(candidate.microbatch);
    const StageTable& table =
        tables.try_emplace({candidate.microbatch, mesh.tensor}, costs, candidate.microbatch, mesh.tensor).first->second;
    const auto chosen = piper_cuts(costs, plan, table);
    if (!chosen) continue;
    plan.cuts = chosen->cuts;
    recompute_least(costs, plan, table);
    keep_better(
        best, {plan, static_cast<double>(chosen->value.count) / static_cast<double>(mesh.data * candidate.microbatch)});
  }
  if (options.stage_degrees) {
    StageChoices stages{costs};
    for (const std::size_t microbatch : divisors(costs.batch)) {
      if (best && options.stop && options.stop()) break;
      const double limit = best ? best->objective : std::numeric_limits<double>::infinity();
      std::vector<PlannerAnswer> answers = PiperStages{costs, stages.of(microbatch), microbatch}.less_than(limit);
      const auto can_be = std::ranges::find_if(
          answers, [&](const PlannerAnswer& each) { return !options.allowed || options.allowed(each.plan); });
      if (can_be != answers.end()) keep_better(best, std::move(*can_be));
    }
  }
  if (!best) refuse_all(costs, "piper", all, 0);
  return *std::move(best);
}

}  // namespace trainyard
