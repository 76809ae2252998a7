#include "trainyard/plan/planners/aceso.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kHops = 7, kTrials = 1000;

/// The search for one number of stages.
class Alleviation {
 public:
  Alleviation(const PlanCosts& costs, const std::vector<Mesh>& meshes, const PlannerOptions& options)
      : costs_(costs), options_(options), meshes_(meshes) {}
  /// For plans with degrees per stage.
  Alleviation(const PlanCosts& costs, const PlannerOptions& options) : costs_(costs), options_(options), meshes_() {}

  /// The plan that the search ends with, from equal degrees; nothing if it does not fit.
  std::optional<PlannerAnswer> run() {
    const Mesh& start = *std::ranges::min_element(meshes_, {}, [](const Mesh& mesh) { return mesh.tensor.ranks; });
    ParallelPlan plan = start.plan(1);
    plan.cuts = equal_cuts(costs_, start.row);
    return improved(std::move(plan), divisors(costs_.batch / plan.data));
  }
  /// As above, from degrees per stage: each of the `row` stages has a power of two of replicas, and the last ones twice
  /// that while devices are left.
  std::optional<PlannerAnswer> run(std::size_t row) {
    const std::size_t each = std::bit_floor(costs_.devices / row), twice = (costs_.devices - each * row) / each;
    ParallelPlan plan;
    plan.cuts = equal_cuts(costs_, row);
    for (std::size_t s = 0; s < row; ++s) plan.degrees.push_back({.data = s + twice < row ? each : 2 * each});
    return improved(plan, microbatches(plan));
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
  using Key = std::tuple<std::size_t, std::size_t, std::size_t, std::vector<std::size_t>, std::vector<StageDegrees>>;
  static Key key(const ParallelPlan& plan) {
    return {plan.data, plan.tensor, plan.microbatch, plan.cuts, plan.degrees};
  }
  /// The plan for the caller: if all stages have the same degrees, a plan without degrees per stage.
  static ParallelPlan simplified(ParallelPlan plan) {
    if (plan.degrees.empty() ||
        std::ranges::count(plan.degrees, plan.degrees.front()) < static_cast<std::ptrdiff_t>(plan.degrees.size()))
      return plan;
    plan.data = plan.degrees.front().data;
    plan.tensor = plan.degrees.front().tensor.ranks;
    plan.microbatch /= plan.data;
    plan.degrees.clear();
    return plan;
  }
  bool allowed(const ParallelPlan& plan) const { return !options_.allowed || options_.allowed(simplified(plan)); }
  /// Microbatch sizes that the replicas of every stage can divide.
  std::vector<std::size_t> microbatches(const ParallelPlan& plan) const {
    std::vector<std::size_t> sizes = divisors(costs_.batch / plan.data);
    std::erase_if(sizes, [&](std::size_t size) {
      return std::ranges::any_of(plan.degrees, [&](const StageDegrees& each) { return size % each.data != 0; });
    });
    return sizes;
  }

  std::optional<PlannerAnswer> improved(ParallelPlan plan, const std::vector<std::size_t>& sizes) {
    if (sizes.empty()) return std::nullopt;
    plan.microbatch = sizes.front();
    for (const std::size_t microbatch : sizes) {  // larger sizes if the filter refuses this one
      if (!options_.allowed || allowed(plan)) break;
      plan.microbatch = microbatch;
    }
    visited_.insert(key(plan));
    Config config = rated(std::move(plan));
    while (auto better = hop(config, config, 0)) config = *std::move(better);
    if (config.excess > Bytes{0} || !allowed(config.plan)) return std::nullopt;
    return PlannerAnswer{simplified(config.plan), static_cast<double>(config.step.count)};
  }

  const StageTable& table(const ParallelPlan& plan, std::size_t stage) {
    const std::size_t samples = plan.samples_of(stage);
    const LayerDegree tensor = plan.degrees_of(stage).tensor;
    return tables_.try_emplace({samples, tensor.ranks}, costs_, samples, tensor).first->second;
  }

  Config rated(ParallelPlan plan) {
    ++trials_;
    const std::vector<StageRange> ranges = ranges_of(costs_, plan.cuts);
    Config config;
    plan.recompute.clear();
    Bytes furthest{0};
    std::size_t fullest = 0;
    Nanoseconds sum{0};
    for (std::size_t s = 0; s < ranges.size(); ++s) {
      const auto [begin, end] = ranges[s];
      const StageTable& stages = table(plan, s);
      const StageRecompute level = least_recompute(costs_, plan, stages, s, ranges[s]).value_or(stages.levels().back());
      const StageCost& stage = stages.of(begin, end, level);
      plan.recompute.push_back(level);
      Nanoseconds time = stage.time();
      if (s > 0) {
        const CutTransfers sent = cut_transfers(costs_, plan, table(plan, s - 1), stages, s, begin);
        time += sent.forward + sent.backward;
      }
      if (s + 1 < ranges.size()) {
        const CutTransfers sent = cut_transfers(costs_, plan, stages, table(plan, s + 1), s + 1, end);
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

  /// All stages, the idlest first.
  static std::vector<std::size_t> idlest(const Config& config) {
    std::vector<std::size_t> stages(config.times.size());
    std::iota(stages.begin(), stages.end(), std::size_t{0});
    sort_by(stages, [&](std::size_t s) { return config.times[s]; });
    return stages;
  }
  /// Moves a layer of the bottleneck to each other stage, by shifting all cuts in between.
  void move_layers(const Config& config, std::vector<ParallelPlan>& moves) const {
    for (const std::size_t to : idlest(config)) {
      ParallelPlan plan = config.plan;
      const std::size_t from = config.bottleneck;
      for (std::size_t cut = to; cut < from; ++cut) ++plan.cuts[cut];
      for (std::size_t cut = from; cut < to; ++cut) --plan.cuts[cut];
      const auto ranges = ranges_of(costs_, plan.cuts);
      if (to != from && ranges[from].begin < ranges[from].end) moves.push_back(std::move(plan));
    }
  }
  bool has_ranks(std::size_t ranks) const { return std::ranges::count(costs_.layer_degrees, LayerDegree{ranks}) > 0; }
  /// Doubles or halves the ranks of the bottleneck, on the same number of devices.
  void change_own_ranks(const Config& config, bool more, std::vector<ParallelPlan>& moves) const {
    ParallelPlan plan = config.plan;
    auto& [data, tensor] = plan.degrees[config.bottleneck];
    if ((more ? data : tensor.ranks) % 2 != 0) return;
    data = more ? data / 2 : 2 * data;
    tensor.ranks = more ? 2 * tensor.ranks : tensor.ranks / 2;
    if (has_ranks(tensor.ranks) && plan.microbatch % data == 0) moves.push_back(std::move(plan));
  }
  /// Doubles the bottleneck's ranks or replicas, with free devices or half of those of other stages. One move per start
  /// in the order of idleness.
  void add_devices(const Config& config, bool ranks, std::vector<ParallelPlan>& moves) const {
    ParallelPlan plan = config.plan;
    auto& [data, tensor] = plan.degrees[config.bottleneck];
    const std::size_t wanted = data * tensor.ranks;
    (ranks ? tensor.ranks : data) *= 2;
    if (!has_ranks(tensor.ranks) || plan.microbatch % data != 0) return;
    const std::vector<std::size_t> others = idlest(config);
    for (std::size_t first = 0; first < others.size(); ++first) {
      ParallelPlan changed = plan;
      std::size_t free = costs_.devices - config.plan.devices();
      for (std::size_t i = first; i < others.size() && free < wanted; ++i) {
        auto& [replicas, parts] = changed.degrees[others[i]];
        const std::size_t half = replicas * parts.ranks / 2;
        if (others[i] == config.bottleneck || half == 0 || free + half > wanted) continue;
        if (replicas % 2 == 0)
          replicas /= 2;
        else if (parts.ranks % 2 == 0 && has_ranks(parts.ranks / 2))
          parts.ranks /= 2;
        else
          continue;
        free += half;
      }
      if (free >= wanted) moves.push_back(std::move(changed));
    }
  }
  /// The mesh with the next larger or smaller number of ranks; with degrees per stage, see change_own_ranks().
  void change_ranks(const Config& config, bool more, std::vector<ParallelPlan>& moves) const {
    if (!config.plan.degrees.empty()) return change_own_ranks(config, more, moves);
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
    const std::vector<std::size_t> sizes = microbatches(config.plan);
    const auto at = std::ranges::find(sizes, config.plan.microbatch);
    if (larger ? at + 1 == sizes.end() : at == sizes.begin()) return;
    ParallelPlan plan = config.plan;
    plan.microbatch = larger ? *(at + 1) : *(at - 1);
    moves.push_back(std::move(plan));
  }

  std::vector<ParallelPlan> moves_of(const Config& config) const {
    std::vector<ParallelPlan> moves;
    const bool by_stage = !config.plan.degrees.empty();
    move_layers(config, moves);
    if (config.excess > Bytes{0}) {
      change_ranks(config, true, moves);
      if (by_stage) add_devices(config, true, moves);
      change_microbatch(config, false, moves);
    } else {
      change_ranks(config, false, moves);
      change_ranks(config, true, moves);
      if (by_stage) add_devices(config, false, moves);
      if (by_stage) add_devices(config, true, moves);
      change_microbatch(config, true, moves);
    }
    return moves;
  }

  /// A plan better than `base`, by one or several moves from `config` (depth-first).
  std::optional<Config> hop(const Config& base, const Config& config, std::size_t depth) {
    if (depth == kHops) return std::nullopt;
    std::vector<Config> next;
    for (ParallelPlan& plan : moves_of(config)) {
      if (trials_ >= kTrials || (base.excess == Bytes{0} && options_.stop && options_.stop())) return std::nullopt;
      if (!visited_.insert(key(plan)).second || !allowed(plan)) continue;
      Config each = rated(std::move(plan));
      if (each < base) return each;
      next.push_back(std::move(each));
    }
    sort_with(next, std::less<>{});
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
  for (std::size_t row = 2; options.stage_degrees && row <= std::min(costs.layers, costs.devices); ++row) {
    if (best && options.stop && options.stop()) break;
    if (auto found = Alleviation{costs, options}.run(row)) keep_better(best, *std::move(found));
  }
  if (!best) refuse_all(costs, "aceso", all, 0);
  return *std::move(best);
}

}  // namespace trainyard
