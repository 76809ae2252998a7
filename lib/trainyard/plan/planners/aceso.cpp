#include "trainyard/plan/planners/aceso.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kHops = 7, kTrials = 1000;

/// The search of one number of stages.
class Alleviation {
 public:
  Alleviation(const PlanCosts& costs, const std::vector<Mesh>& meshes, const PlannerOptions& options)
      : costs_(costs), options_(options), meshes_(meshes) {}

  /// Of those that fit the best; nothing where none does.
  std::optional<PlannerAnswer> run() {
    const Mesh& start = *std::ranges::min_element(meshes_, {}, [](const Mesh& mesh) { return mesh.tensor.ranks; });
    ParallelPlan plan = start.plan(1);
    plan.cuts = equal_cuts(costs_, start.row);
    if (options_.allowed)  // microbatches of more samples where so many cannot be
      for (const std::size_t microbatch : divisors(costs_.batch / plan.data)) {
        plan.microbatch = microbatch;
        if (options_.allowed(plan)) break;
      }
    visited_.insert(key(plan));
    Config config = rated(std::move(plan));
    while (auto better = hop(config, config, 0)) config = *std::move(better);
    if (config.excess > Bytes{0} || (options_.allowed && !options_.allowed(config.plan))) return std::nullopt;
    return PlannerAnswer{config.plan, static_cast<double>(config.step.count)};
  }

 private:
  struct Config {
    ParallelPlan plan;
    Bytes excess{0};
    Nanoseconds step = kLongestTime;
    std::vector<Nanoseconds> times = {};  // by stage
    std::size_t bottleneck = 0;

    bool operator<(const Config& other) const { return std::tie(excess, step) < std::tie(other.excess, other.step); }
  };
  using Key = std::tuple<std::size_t, std::size_t, std::size_t, std::vector<std::size_t>>;
  static Key key(const ParallelPlan& plan) { return {plan.data, plan.tensor, plan.microbatch, plan.cuts}; }

  const StageTable& table(const ParallelPlan& plan) {
    return tables_.try_emplace({plan.microbatch, plan.tensor}, costs_, plan.microbatch, plan.tensor_degree())
        .first->second;
  }

  Config rated(ParallelPlan plan) {
    ++trials_;
    const StageTable& stages = table(plan);
    const std::vector<StageRange> ranges = ranges_of(costs_, plan.cuts);
    Config config;
    plan.recompute.clear();
    Bytes furthest{0};
    std::size_t fullest = 0;
    Nanoseconds sum{0};
    for (std::size_t s = 0; s < ranges.size(); ++s) {
      const auto [begin, end] = ranges[s];
      const StageRecompute level = least_recompute(costs_, plan, stages, s, ranges[s]).value_or(stages.levels().back());
      const StageCost& stage = stages.of(begin, end, level);
      plan.recompute.push_back(level);
      Nanoseconds time = stage.time();
      if (s > 0) {
        const Crossing sent = crossing(costs_, plan, stages, s, begin);
        time += sent.forward + sent.backward;
      }
      if (s + 1 < ranges.size()) {
        const Crossing sent = crossing(costs_, plan, stages, s + 1, end);
        time += sent.forward + sent.backward;
      }
      sum += time;
      config.times.push_back(time);
      const Bytes beyond =
          costs_.memory ? std::max(Bytes{0}, memory_of(costs_, plan, s, stage) - *costs_.memory) : Bytes{0};
      config.excess += beyond;
      if (beyond > furthest) std::tie(furthest, fullest) = std::pair{beyond, s};
    }
    const auto slowest = std::ranges::max_element(config.times);
    config.step = sum + (microbatches_of(costs_, plan) - 1) * *slowest;
    config.bottleneck = config.excess > Bytes{0} ? fullest : static_cast<std::size_t>(slowest - config.times.begin());
    config.plan = std::move(plan);
    return config;
  }

  /// A layer of the bottleneck to each other stage, over those between, the idlest first.
  void move_layers(const Config& config, std::vector<ParallelPlan>& moves) const {
    std::vector<std::size_t> others(config.times.size());
    std::iota(others.begin(), others.end(), std::size_t{0});
    std::ranges::stable_sort(others, {}, [&](std::size_t s) { return config.times[s]; });
    for (const std::size_t to : others) {
      ParallelPlan plan = config.plan;
      const std::size_t from = config.bottleneck;
      for (std::size_t cut = to; cut < from; ++cut) ++plan.cuts[cut];
      for (std::size_t cut = from; cut < to; ++cut) --plan.cuts[cut];
      const auto ranges = ranges_of(costs_, plan.cuts);
      if (to != from && ranges[from].begin < ranges[from].end) moves.push_back(std::move(plan));
    }
  }
  /// The mesh with the next ranks up or down.
  void change_ranks(const Config& config, bool more, std::vector<ParallelPlan>& moves) const {
    const Mesh* next = nullptr;
    for (const Mesh& mesh : meshes_) {
      const std::size_t ranks = mesh.tensor.ranks, now = config.plan.tensor;
      if (more ? ranks > now && (!next || ranks < next->tensor.ranks)
               : ranks < now && (!next || ranks > next->tensor.ranks))
        next = &mesh;
    }
    if (!next) return;
    ParallelPlan plan = config.plan;
    plan.data = next->data;
    plan.tensor = next->tensor.ranks;
    while (costs_.batch / plan.data % plan.microbatch != 0) --plan.microbatch;
    moves.push_back(std::move(plan));
  }
  void change_microbatch(const Config& config, bool larger, std::vector<ParallelPlan>& moves) const {
    const std::vector<std::size_t> sizes = divisors(costs_.batch / config.plan.data);
    const auto at = std::ranges::find(sizes, config.plan.microbatch);
    if (larger ? at + 1 == sizes.end() : at == sizes.begin()) return;
    ParallelPlan plan = config.plan;
    plan.microbatch = larger ? *(at + 1) : *(at - 1);
    moves.push_back(std::move(plan));
  }

  std::vector<ParallelPlan> moves_of(const Config& config) const {
    std::vector<ParallelPlan> moves;
    move_layers(config, moves);
    if (config.excess > Bytes{0}) {
      change_ranks(config, true, moves);
      change_microbatch(config, false, moves);
    } else {
      change_ranks(config, false, moves);
      change_ranks(config, true, moves);
      change_microbatch(config, true, moves);
    }
    return moves;
  }

  /// A better one than `base`, by one move from `config` or by several.
  std::optional<Config> hop(const Config& base, const Config& config, std::size_t depth) {
    if (depth == kHops) return std::nullopt;
    std::vector<Config> next;
    for (ParallelPlan& plan : moves_of(config)) {
      if (trials_ >= kTrials || (base.excess == Bytes{0} && options_.stop && options_.stop())) return std::nullopt;
      if (!visited_.insert(key(plan)).second || (options_.allowed && !options_.allowed(plan))) continue;
      Config each = rated(std::move(plan));
      if (each < base) return each;
      next.push_back(std::move(each));
    }
    std::ranges::stable_sort(next, [](const Config& a, const Config& b) { return a < b; });
    for (const Config& each : next)
      if (auto better = hop(base, each, depth + 1)) return better;
    return std::nullopt;
  }

  const PlanCosts& costs_;
  const PlannerOptions& options_;
  const std::vector<Mesh> meshes_;
  std::map<std::pair<std::size_t, std::size_t>, StageTable> tables_;
  std::set<Key> visited_;
  std::size_t trials_ = 0;
};

}  // namespace

PlannerAnswer plan_aceso(const PlanCosts& costs, const PlannerOptions& options) {
  const std::vector<Mesh> all = whole_meshes(costs, ranks_alone(costs));
  std::map<std::size_t, std::vector<Mesh>> rows;
  for (const Mesh& mesh : all) rows[mesh.row].push_back(mesh);
  std::optional<PlannerAnswer> best;
  for (const auto& row : rows) {
    if (best && options.stop && options.stop()) break;
    if (auto found = Alleviation{costs, row.second, options}.run()) keep_better(best, *std::move(found));
  }
  if (!best) refuse_all(costs, "aceso", all, 0);
  return *std::move(best);
}

}  // namespace trainyard
