#include "trainyard/plan/plan_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "trainyard/core/parallel.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/fills.hpp"
#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/least_memory.hpp"
#include "trainyard/plan/plan_moves.hpp"
#include "trainyard/plan/prove_bounds.hpp"
#include "trainyard/plan/schedule_bound.hpp"
#include "trainyard/plan/stage_cost.hpp"
#include "trainyard/plan/stage_degrees_search.hpp"

namespace trainyard {
namespace {

/// Up to this number, all combinations of cuts and recomputation are evaluated.
constexpr double kEnumerated = 4096;
/// Best plans whose neighbourhoods are searched.
constexpr std::size_t kImproved = 16;
constexpr std::size_t kAtOnce = 64;  // candidates evaluated between two updates of the incumbent
/// Another bucket size has to bring the step below this share of the present one.
constexpr double kWorthOther = 0.99;

std::pair<Bytes, Nanoseconds> outcome(const PlanStep& run, std::optional<Bytes> memory) {
  return {run.excess(memory), run.step};
}

/// Bound (8) of plan_bound(). `work` converts a layer's time per microbatch to its share of the step, and `held` does
/// so for its bytes times the time that they are held. `least` is bound (1) without recomputation.
double least_by_memory(const std::vector<LayerCost>& layers, const std::vector<double>& both, double work, double held,
                       double least) {
  struct Level {
    double time, bytes;  // shares of the step
  };
  std::vector<std::array<Level, 3>> levels;
  double after = 0;  // D_l: from a layer's forward pass until its input gradient is done
  for (std::size_t i = layers.size(); i-- > 0;) {
    after += both[i];
    levels.emplace_back();
    for (const StageRecompute each : {StageRecompute::no, StageRecompute::attention, StageRecompute::blocks})
      levels.back()[static_cast<std::size_t>(each)] = {
          work * static_cast<double>(again_of(layers[i], each).count),
          held * after * static_cast<double>(held_of(layers[i], each).count)};
  }
  const auto at = [&](double x) {
    double sum = (1 - x) * least;
    for (const auto& each : levels) {
      double best = std::numeric_limits<double>::infinity();
      for (const Level& level : each) best = std::min(best, (1 - x) * level.time + x * level.bytes);
      sum += best;
    }
    return sum;
  };
  // The value is concave in x, and a bound for every x: ternary search.
  double low = 0, high = 1, most = 0;
  for (int round = 0; round < 24; ++round) {
    const double left = low + (high - low) / 3, right = high - (high - low) / 3;
    const double at_left = at(left), at_right = at(right);
    most = std::max({most, at_left, at_right});
    (at_left < at_right ? low : high) = at_left < at_right ? left : right;
  }
  return most;
}

/// Bound (7) of plan_bound(), for one stage whose sums overlap its tasks. A bucket is summed once the last task has
/// left its layers. So whatever the buckets, the sums of the first layers follow each other and begin after the last
/// task has left the last of these layers; the first layer's update comes after them. There is either one bucket after
/// all tasks, or several, each with the latency of a sum. `work`: time of all tasks without recomputation.
double least_by_sums(const PlanCosts& costs, const ParallelPlan& like, const std::vector<LayerCost>& layers,
                     double work) {
  const bool adds = costs.batch / like.data > like.microbatch;
  const LayerCost& first = layers.front();
  const Nanoseconds update =
      first.launches + costs.update(first.weights - first.expert_weights, like.shards().state, 0);
  double left = work, begin = work, longest = 0;
  Bytes gradients{0}, of_experts{0};
  for (const LayerCost& layer : layers) {
    begin = left;
    gradients += layer.weights - layer.expert_weights;
    of_experts += layer.expert_weights;
    const Nanoseconds sums = (gradients > Bytes{0} ? costs.all_reduce(like, 0, gradients) : Nanoseconds{0}) +
                             expert_sum(costs, like, 0, of_experts);
    longest = std::max(longest, left + static_cast<double>((sums + update).count));
    left -= static_cast<double>(
        (layer.input_gradient + layer.weight_gradient +
         (adds ? like.shards().accumulation(layer.accumulation, layer.expert_accumulation) : Nanoseconds{0}))
            .count);
  }
  if (gradients <= Bytes{1}) return longest;
  const Nanoseconds behind = expert_sum(costs, like, 0, of_experts) + update;
  const double one = work + static_cast<double>((costs.all_reduce(like, 0, gradients) + behind).count);
  const double several = begin + static_cast<double>((least_several_sums(costs, like, gradients) + behind).count);
  return std::max(longest, std::min(one, several));
}

/// plan_bound(); unless `all_bounds`, without its expensive bounds (7) and (8).
Nanoseconds bound_of(const PlanCosts& costs, const ParallelPlan& like, bool all_bounds) {
  const std::size_t p = like.devices_in_row(), m = costs.batch / like.data / like.microbatch;
  const Shards shards = like.shards();
  // Whether all gradients are held at once.
  const bool at_once = m > 1 || !costs.layer(0, like.microbatch, like.layer_degree()).backward_memory;
  double gradients = 0, sums = 0, whole = 0, resident = 0, state = 0, saved = 0;
  Bytes weights{0}, of_experts{0};
  Nanoseconds end{0};
  // By layer. `both`: passes of a microbatch, without weight gradients that can come later; `all`: all microbatches.
  std::vector<double> forward, both, all;
  std::vector<LayerCost> layers;
  Releases releases;
  for (std::size_t i = 0; i < costs.layers; ++i) {
    const LayerCost layer = costs.layer(i, like.microbatch, like.layer_degree());
    whole += static_cast<double>((layer.forward + layer.input_gradient).count);
    forward.push_back(static_cast<double>(layer.forward.count));
    both.push_back(static_cast<double>((layer.forward + layer.input_gradient).count));
    const double more = static_cast<double>(m - 1) *
                        static_cast<double>(shards.accumulation(layer.accumulation, layer.expert_accumulation).count);
    all.push_back(static_cast<double>(m) * (both.back() + static_cast<double>(layer.weight_gradient.count)) + more);
    if (!splits_backward(like.schedule)) both.back() += static_cast<double>(layer.weight_gradient.count);
    gradients += static_cast<double>(layer.weight_gradient.count);
    sums += more;
    if (all_bounds) layers.push_back(layer);
    weights += layer.weights;
    end += layer.rank_sums + layer.launches;
    of_experts += layer.expert_weights;
    resident += shards.held(static_cast<double>((layer.weights - layer.expert_weights).count),
                            static_cast<double>(layer.expert_weights.count), at_once);
    state += static_cast<double>((layer.state - layer.expert_state).count);
    resident += static_cast<double>(layer.expert_state.count) / static_cast<double>(shards.expert_state);
    saved += static_cast<double>(layer.saved.count);
    releases.add(layer);
  }
  const double without_recomputation = whole;
  // Each device rounds its share of the state.
  const double memory = costs.memory ? static_cast<double>(p) * (static_cast<double>(costs.memory->count) + 1) -
                                           resident - state / static_cast<double>(shards.state)
                                     : 0;  // of all devices, left for activations
  if (costs.memory) {
    const std::optional<double> again = releases.least(saved - memory);
    if (!again) return kLongestTime;
    whole += *again;
  }
  if (like.replicas() > 1) {
    const auto sum = [&](std::size_t i) {
      if (costs.overlap && like.stages() == 1)
        return costs.additions ? costs.additions(like, i, weights - of_experts) : Nanoseconds{0};
      Nanoseconds time = sum_behind(costs, like, i, weights - of_experts);
      return time + expert_sum_behind(costs, like, i, of_experts);
    };
    Nanoseconds least = sum(0);
    for (std::size_t i = 1; i < p; ++i) least = std::min(least, sum(i));
    end += least;
  }
  end += costs.update(weights - of_experts, shards.state, 0);
  if (of_experts > Bytes{0}) end += costs.update(of_experts, shards.expert_state, 0);
  const auto parts = static_cast<double>(m), row = static_cast<double>(p);
  const double passes = splits_backward(like.schedule) ? whole : whole + gradients;
  const double fill = least_fill(std::move(forward), p);
  const auto mean = [&](double time) {
    return (parts * (time + gradients) + sums + static_cast<double>(end.count) + fill) / row;
  };
  double longest = std::max({mean(whole), whole, least_of_fullest(std::move(all), p)});
  if (like.chunks == 1 && m > 1) longest = std::max(longest, passes / (1 - std::pow(1 - 1 / parts, row)));
  if (memory > 0 && all_bounds)
    longest =
        std::max(longest, least_by_memory(layers, both, parts / row, parts / memory, mean(without_recomputation)));
  if (all_bounds && costs.overlap && like.stages() == 1 && like.replicas() > 1)
    longest = std::max(longest, least_by_sums(costs, like, layers, parts * (without_recomputation + gradients) + sums));
  if (p > 1 && shards.gradients > 1) {  // links scatter and gather for each microbatch
    Nanoseconds sum = kLongestTime;     // with ZeRO 3 half a sum
    for (std::size_t i = 0; i < p; ++i)
      sum = std::min(sum, sum_on_links(costs, like, i, weights - of_experts) + expert_sum(costs, like, i, of_experts));
    const double times = shards.weights > 1 ? 3 * parts : (parts + 1) / 2;
    longest = std::max(longest, times * static_cast<double>(sum.count) / row);
  }
  const double until_last = parts * passes + (splits_backward(like.schedule) ? 0 : sums);
  longest = std::max(longest, (until_last + least_fill(std::move(both), p)) / row);
  // Each device rounds every step of an all-reduce, and the update.
  const double slack = 2 + row * (2 * static_cast<double>(like.replicas()) + 1);
  return Nanoseconds{std::max<std::int64_t>(0, static_cast<std::int64_t>(longest * (1 - 1e-12) - slack))};
}

class PlanSearch {
 public:
  PlanSearch(const PlanCosts& costs, const PlanSearchOptions& options)
      : asked_(costs), options_(options), tables_(costs), costs_(tables_.known_costs()), memory_(costs, tables_) {}

  PlanSearchResult run() {
    if (!memory_.may_fit()) memory_.refuse();
    enumerate();
    bool exact = !cut_short_;
    std::size_t next = 0;
    while (next < candidates_.size() && !(next > 0 && options_.stop && options_.stop())) {
      const std::size_t end = std::min(next + kAtOnce, candidates_.size());
      std::vector<std::optional<RatedPlan>> rated(end - next);
      std::vector<std::uint64_t> evaluations(end - next, 0);
      const auto limit = limit_of_bounds();
      parallel_for(thread_count(options_.threads), end - next, [&](std::size_t i) {
        PlanCandidate& candidate = candidates_[next + i];
        if (limit && candidate.bound >= *limit) return;
        candidate.bound = plan_bound(costs_, candidate.plan);
        if (!limit || candidate.bound < *limit) rated[i] = first_of(candidate, evaluations[i]);
      });
      for (std::size_t i = 0; i < rated.size(); ++i) {
        result_.evaluations += evaluations[i];
        if (!rated[i]) continue;
        exact = exact && is_enumerated(candidates_[next + i].plan);
        keep(std::move(*rated[i]));
      }
      next = end;
      if (next < candidates_.size() && limit_of_bounds().value_or(kLongestTime) <= candidates_[next].bound) break;
    }
    Nanoseconds bound = cut_short_                  ? Nanoseconds{0}
                        : next < candidates_.size() ? candidates_[next].bound
                                                    : kLongestTime;
    improve();
    if (options_.proves) prove(next);
    // Enumerated candidates are solved exactly, so only the others' bounds count.
    if (!exact)
      for (std::size_t i = 0; i < next; ++i)
        if (!is_enumerated(candidates_[i].plan)) bound = std::min(bound, candidates_[i].bound);
    exact = exact && (next == candidates_.size() || (least_ && candidates_[next].bound >= *least_));
    if (options_.stage_degrees && !cut_short_ &&
        std::ranges::find(options_.schedules, PipelineSchedule::one_f_one_b) != options_.schedules.end()) {
      StageDegreesFound found_besides = search_stage_degrees(asked_, options_, tables_, least_);
      for (RatedPlan& each : found_besides.best) keep(std::move(each));
      result_.evaluations += found_besides.evaluations;
      bound = std::min(bound, found_besides.bound);
      exact = exact && found_besides.exact;
    }
    if (best_.empty()) memory_.refuse();
    if (least_) bound = std::min(bound, *least_);
    sort_best();
    if (best_.size() > options_.kept) best_.resize(std::max<std::size_t>(1, options_.kept));
    result_.best = std::move(best_);
    result_.bound = bound;
    result_.exact = exact && least_;
    return std::move(result_);
  }

 private:
  /// Only plans with a bound below this limit are run. No limit until a plan fits.
  std::optional<Nanoseconds> limit_of_bounds() const {
    if (!least_) return std::nullopt;
    return Nanoseconds{static_cast<std::int64_t>(options_.within * static_cast<double>(least_->count))};
  }

  void enumerate() {
    BoundedCandidates found = bounded_candidates(
        costs_, options_, tables_, memory_, [this](const ParallelPlan& plan) { return bound_of(costs_, plan, false); });
    candidates_ = std::move(found.all);
    cut_short_ = found.cut_short;
    sort_by(candidates_, &PlanCandidate::bound);
  }

  /// Recomputation levels that a stage can choose from.
  std::vector<StageRecompute> levels(const ParallelPlan& plan) const {
    return recompute_levels(costs_, tables_.known(plan.microbatch, plan.layer_degree()));
  }

  /// Recomputations that a stage of `layers` layers can choose from.
  std::vector<StageRecomputation> choices_of_stage(const ParallelPlan& plan, std::size_t layers) const {
    std::vector<StageRecomputation> choices;
    for (const StageRecompute what : levels(plan)) {
      for (std::size_t first = 1; options_.by_layer && what != StageRecompute::no && first < layers; ++first)
        choices.emplace_back(what, first);
      choices.emplace_back(what);
    }
    return choices;
  }

  /// Upper bound on the combinations of cuts and recomputation; a double, since an integer could overflow.
  double choices(const ParallelPlan& plan) const {
    const std::size_t longest = costs_.layers + 1 - plan.stages();
    const double each =
        1 + static_cast<double>(levels(plan).size() - 1) * static_cast<double>(options_.by_layer ? longest : 1);
    double count = std::pow(each, static_cast<double>(plan.stages()));
    for (std::size_t i = 0; i < plan.cuts.size(); ++i)
      count *= static_cast<double>(costs_.layers - 1 - i) / static_cast<double>(i + 1);
    return count;
  }

  /// Whether all cuts and recomputations are evaluated, and bucket sizes are not varied.
  bool is_enumerated(const ParallelPlan& plan) const {
    return choices(plan) <= kEnumerated && (costs_.bucket == Bytes{0} || plan.replicas() == 1);
  }

  RatedPlan first_of(const PlanCandidate& candidate, std::uint64_t& evaluations) const {
    return with_buckets(choices(candidate.plan) <= kEnumerated ? best_of_all(candidate.plan, evaluations)
                                                               : balanced(candidate.plan, evaluations),
                        evaluations);
  }

  /// The plan with another bucket size, if that is worth it (kWorthOther). Buckets 4, 16, ... times as large save
  /// latency, since each sum has its own. In plans of one stage, buckets of a half, a quarter, ... start their sums
  /// sooner; not if ranks communicate, since the estimate does not model how sums delay their collectives.
  RatedPlan with_buckets(RatedPlan best, std::uint64_t& evaluations) const {
    if (costs_.bucket == Bytes{0} || best.plan.replicas() == 1) return best;
    Bytes weights{0};
    for (std::size_t i = 0; i < costs_.layers; ++i)
      weights += costs_.layer(i, best.plan.microbatch, best.plan.layer_degree()).weights;
    ParallelPlan other = best.plan;
    const auto is_worth_it = [&] {
      RatedPlan each = rated(costs_, other, evaluations);
      const auto most = static_cast<std::int64_t>(kWorthOther * static_cast<double>(best.run.step.count));
      if (each.run.step >= Nanoseconds{most}) return false;
      best = std::move(each);
      return true;
    };
    // Larger buckets save at most one sum per layer.
    const Nanoseconds latency = costs_.all_reduce(best.plan, 0, Bytes{0});
    const auto saved = static_cast<double>(latency.count) * static_cast<double>(costs_.layers);
    if (saved >= (1 - kWorthOther) * static_cast<double>(best.run.step.count))
      for (other.bucket = 4 * costs_.bucket; other.bucket < 4 * weights; other.bucket = 4 * other.bucket) is_worth_it();
    if (best.plan.bucket > Bytes{0} || other.stages() > 1 || other.layer_degree().communicates() || !costs_.overlap)
      return best;
    other.bucket = std::min(costs_.bucket, weights);
    do other.bucket = Bytes{other.bucket.count / 2};
    while (other.bucket > Bytes{0} && is_worth_it());
    return best;
  }

  bool better(const RatedPlan& one, const RatedPlan& other) const {
    return outcome(one.run, costs_.memory) < outcome(other.run, costs_.memory);
  }

  RatedPlan best_of_all(ParallelPlan plan, std::uint64_t& evaluations) const {
    const std::size_t stages = plan.stages();
    for (std::size_t i = 0; i < plan.cuts.size(); ++i) plan.cuts[i] = i + 1;
    std::optional<RatedPlan> best;
    for (bool more = true; more;) {
      std::vector<std::vector<StageRecomputation>> choice;
      std::size_t combinations = 1;
      for (std::size_t s = 0; s < stages; ++s) {
        const std::size_t begin = s > 0 ? plan.cuts[s - 1] : 0, end = s + 1 < stages ? plan.cuts[s] : costs_.layers;
        choice.push_back(choices_of_stage(plan, end - begin));
        combinations *= choice.back().size();
      }
      for (std::size_t again = 0; again < combinations; ++again) {
        plan.recompute.assign(stages, StageRecompute::no);
        for (std::size_t s = 0, rest = again; s < stages; rest /= choice[s++].size())
          plan.recompute[s] = choice[s][rest % choice[s].size()];
        RatedPlan each = rated(costs_, plan, evaluations);
        if (!best || better(each, *best)) best = std::move(each);
      }
      more = false;  // the next cuts in lexicographic order
      for (std::size_t i = plan.cuts.size(); i-- > 0 && !more;)
        if (plan.cuts[i] < costs_.layers - (plan.cuts.size() - i)) {
          ++plan.cuts[i];
          for (std::size_t j = i + 1; j < plan.cuts.size(); ++j) plan.cuts[j] = plan.cuts[j - 1] + 1;
          more = true;
        }
    }
    return std::move(*best);
  }

  /// Cuts that minimize the slowest stage, by dynamic programming. A stage recomputes if it does not fit otherwise. If
  /// it does not fit even so, bytes beyond the memory count before time. Returns equal cuts if they are better.
  RatedPlan balanced(ParallelPlan plan, std::uint64_t& evaluations) const {
    const auto& layers = tables_.known(plan.microbatch, plan.layer_degree());
    const std::size_t stages = plan.stages(), n = layers.size(), p = plan.devices_in_row();
    plan.recompute.assign(stages, StageRecompute::no);
    std::map<LayerDegree, StageTable> tables;
    const auto table_of = [&](std::size_t device) -> const StageTable& {
      const LayerDegree degree = costs_.degree_of(plan, device);
      return tables.try_emplace(degree, costs_, plan.microbatch, degree).first->second;
    };
    const RatedPlan equal = rated(costs_, plan, evaluations);
    const bool several = costs_.batch / plan.data > plan.microbatch;
    const auto v = static_cast<std::int64_t>(plan.chunks);
    struct Cost {
      Bytes excess;
      Nanoseconds time;
      StageRecomputation recompute = {};
    };
    const auto worse = [](const Cost& a, const Cost& b) {
      return Cost{std::max(a.excess, b.excess), std::max(a.time, b.time)};
    };
    std::vector<std::vector<Cost>> best(stages + 1,
                                        std::vector<Cost>(n + 1, {Bytes{kLongestTime.count}, kLongestTime}));
    std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(n + 1, 0));
    std::vector<std::vector<StageRecomputation>> again(stages + 1, std::vector<StageRecomputation>(n + 1));
    best[0][0] = {};
    Cost most{Bytes{kLongestTime.count}, kLongestTime};  // longer stages are pruned
    // Calls visit(end, cost) for each end of stage s if it begins at `begin`, until visit returns false.
    const auto each_end = [&](std::size_t s, std::size_t begin, const auto& visit) {
      const std::size_t device = device_of(plan.schedule, s, p);
      const std::size_t held = (equal.run.held[device] + plan.chunks - 1) / plan.chunks;
      const StageTable& table = table_of(device);
      const std::optional<Bytes> memory = costs_.memory_of(plan, device);
      const auto beyond = [&](Bytes bytes) {
        return memory ? std::max(Bytes{0}, bytes - Bytes{memory->count / v}) : Bytes{0};
      };
      std::vector<std::size_t> first(table.levels().size(), 1);  // recomputed layers with which a stage fits
      for (std::size_t end = begin + 1; end + (stages - s - 1) <= n; ++end) {
        const StageCost& least = table.of(begin, end);
        if (most.excess == Bytes{0} && least.time() - least.accumulation > most.time) return;
        Cost cost{Bytes{kLongestTime.count}, kLongestTime};
        for (std::size_t i = 0; i < table.levels().size(); ++i) {
          const auto offer = [&](const StageRecomputation& recompute) {
            const StageCost stage = table.of(begin, end, recompute);
            const Cost each{beyond(stage.memory(held, plan.shards(), several)), stage.time() - stage.accumulation,
                            recompute};
            if (std::tie(each.excess, each.time) < std::tie(cost.excess, cost.time)) cost = each;
            return each.excess;
          };
          const StageRecompute what = table.levels()[i];
          if (options_.by_layer && what != StageRecompute::no)
            while (first[i] < end - begin && offer({what, first[i]}) > Bytes{0}) ++first[i];
          offer(what);
        }
        if (!visit(end, cost)) return;
      }
    };
    Cost equal_cuts{};  // upper bound on the stages of the best cuts
    for (std::size_t s = 0; s < stages; ++s) {
      Cost own{};
      const std::size_t last = s + 1 < stages ? plan.cuts[s] : n;
      each_end(s, s > 0 ? plan.cuts[s - 1] : 0, [&](std::size_t end, const Cost& cost) {
        own = cost;
        return end < last;
      });
      equal_cuts = worse(equal_cuts, own);
    }
    most = equal_cuts;
    for (std::size_t s = 0; s < stages; ++s)
      for (std::size_t begin = s; begin + (stages - s) <= n; ++begin) {
        if (best[s][begin].time == kLongestTime) continue;
        each_end(s, begin, [&](std::size_t end, const Cost& cost) {
          const Cost whole = worse(best[s][begin], cost);
          if (std::tie(whole.excess, whole.time) >= std::tie(best[s + 1][end].excess, best[s + 1][end].time))
            return true;
          best[s + 1][end] = whole;
          from[s + 1][end] = begin;
          again[s + 1][end] = cost.recompute;
          return true;
        });
      }
    for (std::size_t s = stages, end = n; s-- > 0;) {
      plan.recompute[s] = again[s + 1][end];
      end = from[s + 1][end];
      if (s > 0) plan.cuts[s - 1] = end;
    }
    RatedPlan cut = rated(costs_, std::move(plan), evaluations);
    return better(equal, cut) ? equal : cut;
  }

  void sort_best() {
    sort_by(best_, [&](const RatedPlan& each) { return outcome(each.run, costs_.memory); });
  }
  void keep(RatedPlan plan) {
    if (plan.run.excess(costs_.memory) == Bytes{0}) least_ = std::min(least_.value_or(plan.run.step), plan.run.step);
    best_.push_back(std::move(plan));
    const std::size_t most = std::max(options_.kept, kImproved);
    if (best_.size() < 4 * most) return;
    sort_best();
    best_.resize(most);
  }

  /// Raises the bounds of the candidates that were evaluated but not enumerated, by schedule_bound().
  void prove(std::size_t looked_at) {
    if (!least_) return;
    std::vector<PlanCandidate*> open;
    for (std::size_t i = 0; i < looked_at; ++i)
      if (!is_enumerated(candidates_[i].plan)) open.push_back(&candidates_[i]);
    prove_bounds(
        open, *least_, options_, [](const ParallelPlan&) { return true; },
        [this](const ParallelPlan& plan, Nanoseconds aim, std::size_t rounds) {
          return schedule_bound(costs_, plan, aim, rounds);
        });
  }

  /// Local search (improve_plan) from the best plans.
  void improve() {
    sort_best();
    const std::size_t count = std::min(best_.size(), kImproved);
    std::vector<std::uint64_t> evaluations(count, 0);
    parallel_for(thread_count(options_.threads), count, [&](std::size_t i) {
      if (choices(best_[i].plan) > kEnumerated)
        best_[i] = improve_plan(costs_, options_, std::move(best_[i]), evaluations[i]);
    });
    for (std::size_t i = 0; i < count; ++i) {
      result_.evaluations += evaluations[i];
      if (best_[i].run.excess(costs_.memory) == Bytes{0})
        least_ = std::min(least_.value_or(best_[i].run.step), best_[i].run.step);
    }
  }

  const PlanCosts& asked_;
  const PlanSearchOptions& options_;
  LayerTables tables_;
  PlanCosts costs_;  // `asked_` with layers from the tables
  LeastMemory memory_;
  std::vector<PlanCandidate> candidates_;
  bool cut_short_ = false;  // time ran out before all candidates were enumerated
  std::vector<RatedPlan> best_;
  std::optional<Nanoseconds> least_;  // the incumbent: shortest step of a plan that fits
  PlanSearchResult result_;
};

}  // namespace

Nanoseconds plan_bound(const PlanCosts& costs, const ParallelPlan& like) { return bound_of(costs, like, true); }

PlanSearchResult search_plans(const PlanCosts& costs, const PlanSearchOptions& options) {
  if (costs.layers == 0 || costs.batch == 0 || costs.devices == 0 || options.schedules.empty())
    refuse("plan", "a plan search needs at least one layer, sample, device and schedule", "give at least one of each");
  if (!costs.layer || !costs.update || (costs.devices > 1 && (!costs.transfer || !costs.all_reduce)))
    refuse("plan", "PlanCosts has functions that are not set", "set PlanCosts::layer, update, transfer and all_reduce");
  return PlanSearch{costs, options}.run();
}

}  // namespace trainyard
