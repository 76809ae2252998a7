#include "trainyard/plan/least_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/fills.hpp"
#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/least_memory.hpp"
#include "trainyard/plan/prove_bounds.hpp"
#include "trainyard/plan/schedule_bound.hpp"
#include "trainyard/plan/stage_degrees_bound.hpp"

namespace trainyard {
namespace {

double number(auto quantity) { return static_cast<double>(quantity.count); }

/// Whether the plan may make weight gradients after all tasks, as plans with several tensor ranks and replicas do
/// (plan_schedule.hpp).
bool makes_gradients_last(const ParallelPlan& plan) { return plan.tensor > 1 && plan.replicas() > 1; }

class LeastStep {
 public:
  LeastStep(const LeastCosts& costs, const PlanSearchOptions& options)
      : work_(costs.work),
        alone_(costs.read_forward_alone),
        options_(options),
        tables_(costs.plan),
        costs_(tables_.known_costs()) {}

  Nanoseconds run(Nanoseconds enough) {
    PlanCosts roomy = costs_;  // twice the memory, because LeastMemory may count gradients that are not held
    if (roomy.memory) roomy.memory = Bytes{2 * roomy.memory->count};
    LeastMemory memory{roomy, tables_};
    PlanSearchOptions unsliced = options_;  // the bound of an unsliced plan holds for any order of slices
    unsliced.most_slices = 1;
    BoundedCandidates found = bounded_candidates(costs_, unsliced, tables_, memory,
                                                 [this](const ParallelPlan& plan) { return bound_of(plan); });
    if (found.cut_short) return Nanoseconds{0};
    candidates_ = std::move(found.all);
    std::vector<PlanCandidate*> all;
    for (PlanCandidate& each : candidates_) all.push_back(&each);
    prove_bounds(
        all, enough, options_,
        [this](const ParallelPlan& plan) {
          return plan.devices_in_row() > 1 && is_chain(plan.microbatch, plan.layer_degree());
        },
        [this](const ParallelPlan& plan, Nanoseconds aim, std::size_t rounds) {
          return of_schedule(plan, aim, rounds);
        });
    Nanoseconds bound = kLongestTime;
    for (const PlanCandidate& each : candidates_) bound = std::min(bound, each.bound);
    if (options_.stage_degrees)
      if (const auto besides = bound_stage_degrees(
              costs_, options_, tables_, enough, [this](std::size_t microbatch) { return mean_of_degrees(microbatch); },
              [this](std::size_t microbatch) { return is_chain_at_any_degrees(microbatch); }))
        bound = std::min(bound, *besides);
    return bound;
  }

 private:
  /// The bounds of least_step() except schedule_bound() and bound_stage_degrees().
  Nanoseconds bound_of(const ParallelPlan& like) const {
    const std::size_t p = like.devices_in_row(), count = costs_.batch / like.data / like.microbatch;
    const auto m = static_cast<double>(count), row = static_cast<double>(p);
    const Shards shards = like.shards();
    const LayerDegree degree = like.layer_degree();
    Bytes weights{0}, of_experts{0};
    double until_last = 0;  // passes of a microbatch until its last gradient can be made
    double ops = 0, backward_ops = 0, links = 0, links_back = 0, both = 0, made = 0, more = 0, added = 0, resident = 0,
           state = 0;
    Nanoseconds launches{0};
    Bytes saved{0};
    Releases of_ops, of_passes;
    std::vector<double> forward, passes, all;
    for (std::size_t i = 0; i < costs_.layers; ++i) {
      const LayerCost layer = in_tasks(costs_.layer(i, like.microbatch, degree), i, like);
      const LeastWork work = work_(i, like.microbatch, degree);
      launches += layer.launches;
      ops += number(work.forward + work.backward);
      backward_ops += number(work.backward);
      links += number(work.links);
      links_back += number(work.links_back);
      made += number(layer.weight_gradient);
      more += shards.gradients > 1 ? 0 : number(work.accumulation);  // shards add by bucket
      added += number(layer.accumulation);
      forward.push_back(number(layer.forward));
      passes.push_back(number(layer.forward + layer.input_gradient));
      both += passes.back();
      until_last += weights > Bytes{0} ? passes.back() : number(layer.forward);
      weights += layer.weights - layer.expert_weights;
      of_experts += layer.expert_weights;
      all.push_back(m * (passes.back() + number(layer.weight_gradient)) + (m - 1) * number(layer.accumulation));
      resident += shards.held(number(layer.weights - layer.expert_weights), number(layer.expert_weights), count > 1);
      resident += static_cast<double>(layer.expert_state.count) / static_cast<double>(shards.expert_state);
      state += static_cast<double>((layer.state - layer.expert_state).count);
      saved += layer.saved;
      of_ops.add(layer, work.scores_again, work.again);
      of_passes.add(layer);
    }
    double again = 0, again_in_passes = 0;  // recomputation per microbatch, so that one microbatch fits
    if (costs_.memory) {
      const double beyond = resident + state / static_cast<double>(shards.state) + number(saved) -
                            row * (static_cast<double>(costs_.memory->count) + 1);
      if (!of_ops.least(beyond)) return kLongestTime;
      again = *of_ops.least(beyond);
      again_in_passes = *of_passes.least(beyond);
    }
    double behind = number(launches + costs_.update(weights, shards.state, 0)), sums = 0;
    if (like.replicas() > 1) {
      Nanoseconds least = kLongestTime, by_device = kLongestTime;
      for (std::size_t i = 0; i < p; ++i) {
        least = std::min(least, costs_.all_reduce(like, i, weights));
        by_device = std::min(by_device, costs_.additions(like, i, weights));
      }
      sums = number(least);
      behind += number(by_device);
    }
    double sums_of_experts = number(expert_sum(costs_, like, 0, of_experts));
    for (std::size_t i = 1; i < p; ++i)
      sums_of_experts = std::min(sums_of_experts, number(expert_sum(costs_, like, i, of_experts)));
    const double times = like.zero < 2 ? 1 : like.zero == 2 ? (m + 1) / 2 : 2 * m;  // sums, or halves with ZeRO 3
    double longest =
        std::max({p == 1 ? both + again_in_passes : both, (m * (ops + again) + (m - 1) * more + behind) / row,
                  m * links / row, sums / row, times * sums_of_experts / row});
    if (p == 1) {
      if (sums > 0 && is_chain(like.microbatch, degree))
        longest = std::max(longest, until_last + number(costs_.all_reduce(like, 0, Bytes{1})));
      const double chain = std::accumulate(forward.begin(), forward.end(), 0.0);
      // The loss, and with it the backward pass, waits for the forward chain and for the gathers of weights.
      const double gathers = like.zero == 3 && alone_ ? m * sums : 0;
      const double until_last_loss = std::max({m * (ops - backward_ops), chain, gathers});
      if (like.zero == 2) longest = std::max(longest, (m + 1) / 2 * sums);
      if (like.zero == 3)
        longest = std::max(
            longest,
            alone_ ? gathers + m * (sums + number(costs_.all_reduce(like, 0, std::max(Bytes{0}, weights - *alone_))))
                   : 2 * m * sums);
      if (count == 1) longest = std::max(longest, until_last_loss + backward_ops + behind);
      if (sums > 0 && links > 0 && costs_.ranks_share_links(like, 0))
        longest = std::max({longest, m * links + sums, until_last_loss + links_back + sums,
                            m * (ops - backward_ops + links_back) - (m - 1) * most_before_last_loss(like) + sums});
      if (sums > 0 && degree.context * degree.experts == 1)
        longest = std::max(
            longest, with_sums(like, count, ops - backward_ops, chain, gathers,
                               degree == LayerDegree{1} ? std::optional{backward_ops + again + more} : std::nullopt));
    } else {
      const double fill = least_fill(std::move(forward), p),
                   tasks = m * (both + again_in_passes + made) + (m - 1) * added;
      const bool apart = splits_backward(like.schedule) || makes_gradients_last(like);
      const bool in_line = !apart && is_chain(like.microbatch, degree);
      const double but_last = std::max(tasks + fill - passes_back(like) - again_in_passes - made,
                                       m * ops + (m - 1) * (again + more) - backward_ops);
      if (sums > 0 && shards.gradients > 1)  // links scatter and gather for each microbatch
        longest = std::max(longest, times * sums / row);
      longest = std::max({longest, (tasks + behind + fill) / row,
                          like.chunks == 1 ? (but_last - std::max(more, added) + sums) / row : 0,
                          (m * both + (apart ? 0 : (m - 1) * (made + added)) + least_fill(std::move(passes), p)) / row,
                          least_of_fullest(std::move(all), p)});
      if (like.chunks == 1 && count > 1) {
        const double later = 1 - 1 / m;
        longest = std::max(longest, (m * both + (in_line ? (m - 1) * std::pow(later, row - 1) * made : 0)) /
                                        (m * (1 - std::pow(later, row))));
      }
    }
    // Each device rounds every step of an all-reduce, and the update.
    const double slack = 2 + row * (2 * static_cast<double>(like.replicas()) + 1);
    return Nanoseconds{std::max<std::int64_t>(0, static_cast<std::int64_t>(longest * (1 - 1e-9) - slack))};
  }

  /// Largest excess of link time over the device's ops so far, at any time of a backward pass.
  double most_before_last_loss(const ParallelPlan& like) const {
    std::vector<std::pair<double, double>> held;  // ops ahead, link time
    for (std::size_t i = 0; i < costs_.layers; ++i) {
      const LeastWork work = work_(i, like.microbatch, like.layer_degree());
      held.emplace_back(number(work.ahead_of_links), number(work.links_back));
    }
    std::ranges::sort(held);
    double most = 0, links = 0;
    for (const auto& [ahead, time] : held) most = std::max(most, (links += time) - ahead);
    return most;
  }

  bool is_chain(std::size_t microbatch, LayerDegree degree) const {
    for (std::size_t i = 0; i < costs_.layers; ++i)
      if (!work_(i, microbatch, degree).on_chain) return false;
    return true;
  }
  double passes_back(const ParallelPlan& like) const {
    double sum = 0;
    for (std::size_t i = 0; i < costs_.layers; ++i)
      sum += number(in_tasks(costs_.layer(i, like.microbatch, like.layer_degree()), i, like).input_gradient);
    return sum;
  }

  /// A layer's cost with the gradient times of `like`'s schedule: from LeastWork if the schedule splits the backward
  /// pass, else from LayerCost. Gradient shards accumulate without cost.
  LayerCost in_tasks(LayerCost cost, std::size_t layer, const ParallelPlan& like) const {
    if (splits_backward(like.schedule)) {
      const LeastWork work = work_(layer, like.microbatch, like.layer_degree());
      cost.input_gradient = work.input_gradient;
      cost.weight_gradient = work.weight_gradient;
      cost.accumulation = work.accumulation;
    }
    if (like.shards().gradients > 1) cost.accumulation = Nanoseconds{0};
    return cost;
  }

  /// The larger of two bounds on the step with its sums of gradients.
  ///
  ///   - For any set of latest gradients: the earliest time that one of them exists, then the sum of the set.
  ///   - For all gradients, the least of three cases. One sum follows the last gradient. Or there are two sums: one
  ///     follows the last gradient, the other holds at most what exists earlier, and both follow the latest gradient of
  ///     the other. Or there are three or more.
  ///
  /// A gradient exists once the device has run the ops ahead of it: `forward` of all m microbatches, and if ranks do
  /// not wait for each other, `backward` of all microbatches but the last. It also waits for the chain through one
  /// microbatch. `gathers` is the time of gathering weights before the last loss.
  double with_sums(const ParallelPlan& like, std::size_t count, double forward, double chain, double gathers,
                   std::optional<double> backward) const {
    const auto m = static_cast<double>(count);
    std::vector<std::pair<double, Bytes>> gradients;
    for (std::size_t i = 0; i < costs_.layers; ++i) {
      const LeastWork work = work_(i, like.microbatch, like.layer_degree());
      for (const auto& [ahead, along, bytes] : work.gradients) {
        const double before = count == 1 ? std::max(forward, chain) + number(ahead)
                              : backward ? m * forward + (m - 1) * *backward + number(ahead)
                                         : m * (forward + number(ahead));
        gradients.emplace_back(
            std::max({before, chain + number(along), gathers + std::max(number(ahead), number(along))}), bytes);
      }
    }
    std::ranges::sort(gradients, std::ranges::greater{});
    double longest = 0;
    Bytes sum{0};
    for (const auto& [there, bytes] : gradients) {
      sum += bytes;
      longest = std::max(longest, there + number(costs_.all_reduce(like, 0, sum)));
    }
    if (sum <= Bytes{2}) return longest;
    const auto all_reduce = [&](Bytes bytes) { return number(costs_.all_reduce(like, 0, bytes)); };
    const double last = gradients.front().first, two = number(least_several_sums(costs_, like, sum)),
                 three = number(least_several_sums(costs_, like, sum - Bytes{1})) + all_reduce(Bytes{1});
    double least = std::min(last + all_reduce(sum), gradients.back().first + three);
    Bytes first{0};
    for (std::size_t i = gradients.size(); i-- > 1;) {
      first += gradients[i].second;
      least = std::min(least, std::max(gradients[i].first + two, last + all_reduce(sum - first)));
    }
    return std::max(longest, least);
  }

  /// Bound of the mean device if stages have different degrees: each layer at the degrees with the least work.
  Nanoseconds mean_of_degrees(std::size_t microbatch) {
    const auto m = static_cast<std::int64_t>(costs_.batch / microbatch);
    double sum = 0;
    for (std::size_t i = 0; i < costs_.layers; ++i) {
      double least = number(kLongestTime);
      for (const LayerDegree tensor : costs_.layer_degrees)
        for (const std::size_t data : divisors(tensor.context * tensor.experts == 1 ? microbatch : 0)) {
          if (data * tensor.ranks >= costs_.devices) continue;
          tables_.of(microbatch / data, tensor);  // work_() needs the table
          const LeastWork work = work_(i, microbatch / data, tensor);
          least = std::min(least, static_cast<double>(data * tensor.ranks) *
                                      number(m * (work.forward + work.backward) + (m - 1) * work.accumulation));
        }
      sum += least;
    }
    return Nanoseconds{static_cast<std::int64_t>(sum / static_cast<double>(costs_.devices) * (1 - 1e-9)) - 2};
  }

  bool is_chain_at_any_degrees(std::size_t microbatch) const {
    for (const LayerDegree tensor : costs_.layer_degrees)
      for (const std::size_t data : divisors(tensor.context * tensor.experts == 1 ? microbatch : 0))
        if (data * tensor.ranks < costs_.devices && !is_chain(microbatch / data, tensor)) return false;
    return true;
  }

  ScheduleBound of_schedule(const ParallelPlan& plan, Nanoseconds enough, std::size_t rounds) const {
    PlanCosts costs = costs_;
    TaskRules rules{.inside = TaskParts::apart, .last_addition_behind = makes_gradients_last(plan)};
    bool adds = costs_.batch / plan.data > plan.microbatch;
    for (std::size_t i = 0; i < costs_.layers; ++i) {
      const LeastWork work = work_(i, plan.microbatch, plan.layer_degree());
      adds = adds && work.additions_take_time;
      if (plan.layer_degree() == LayerDegree{1}) rules.own_sums.push_back(work.has_own_sum);
    }
    costs.layer = [&, layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
      LayerCost cost = in_tasks(layer(i, samples, degree), i, plan);
      // If additions take no time, the gradients of all microbatches may come after all tasks.
      if (makes_gradients_last(plan) && !adds) cost.weight_gradient = cost.accumulation = Nanoseconds{0};
      return cost;
    };
    return schedule_bound(costs, plan, enough, rounds, rules);
  }

  const std::function<LeastWork(std::size_t, std::size_t, LayerDegree)>& work_;
  const std::optional<Bytes> alone_;
  const PlanSearchOptions& options_;
  LayerTables tables_;
  PlanCosts costs_;
  std::vector<PlanCandidate> candidates_;
};

}  // namespace

Nanoseconds least_step(const LeastCosts& costs, const PlanSearchOptions& options, Nanoseconds enough) {
  return LeastStep{costs, options}.run(enough);
}

}  // namespace trainyard
