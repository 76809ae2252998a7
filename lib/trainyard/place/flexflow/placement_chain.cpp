#include "trainyard/place/flexflow/placement_chain.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/core/portable_math.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/groups.hpp"

namespace trainyard {
namespace {

constexpr double kSpreadChance = 0.25;

}  // namespace

PlacementChain::PlacementChain(const Problem& problem, Schedule start, Random random)
    : problem_(problem),
      able_(group_devices(problem)),
      memory_binds_(memory_may_bind(problem)),
      random_(random),
      delta_(problem, std::move(start)),
      best_(delta_.schedule().placement) {
  for (const GroupId group : problem.groups())
    if (able_[group].size() > 1) movable_.push_back(group);
  current_ = {excess(), delta_.makespan()};
  best_outcome_ = current_;
}

Bytes PlacementChain::excess() { return memory_binds_ ? excess_of(problem_, delta_.peaks()) : Bytes{0}; }

double PlacementChain::calibrated_beta(std::size_t samples, const std::function<bool()>& stop, double taken) {
  std::vector<double> harms;  // as shares of the cost
  for (std::size_t i = 0; i < samples && !(stop && stop()); ++i) {
    if (!propose()) continue;
    const DeltaResult result = delta_.try_move(moving_, target_);
    ++evaluations_;
    if (result.makespan > current_.makespan)
      harms.push_back(static_cast<double>((result.makespan - current_.makespan).count) /
                      static_cast<double>(std::max<std::int64_t>(current_.makespan.count, 1)));
    delta_.reject();
  }
  if (harms.empty()) return kGreedy;
  return -portable_log(taken) / upper_quantile_of(std::move(harms));
}

GroupId PlacementChain::random_neighbour(GroupId group) {
  const Graph& graph = problem_.graph();
  const auto ops = problem_.group_ops(group);
  const OpId op = ops[random_.below(ops.size())];
  const auto inputs = graph.inputs(op);
  const auto outputs = graph.outputs(op);
  if (inputs.size() + outputs.size() == 0) return group;
  const std::size_t at = random_.below(inputs.size() + outputs.size());
  if (at < inputs.size()) return problem_.group(graph.producer(inputs[at]));
  const auto readers = graph.consumers(TensorId{(*outputs.begin()).index() + at - inputs.size()});
  return readers.empty() ? group : problem_.group(readers[random_.below(readers.size())]);
}

bool PlacementChain::propose() {
  moving_.clear();
  if (movable_.empty()) return false;
  GroupId group = movable_[random_.below(movable_.size())];
  const Placement& placement = delta_.schedule().placement;
  const auto add = [&](GroupId each) {
    for (const OpId op : problem_.group_ops(each))
      if (std::ranges::find(moving_, op) == moving_.end()) moving_.push_back(op);
  };
  if (propagation_ && random_.chance(kSpreadChance)) {  // the group's device spreads from neighbour to neighbour
    target_ = placement[problem_.group_ops(group).front()];
    do {
      group = random_neighbour(group);
      if (!std::ranges::binary_search(able_[group], target_)) break;
      if (placement[problem_.group_ops(group).front()] != target_) add(group);
    } while (random_.chance(kSpreadChance));
    std::ranges::sort(moving_);
    return !moving_.empty();
  }
  target_ = able_[group][random_.below(able_[group].size())];
  if (placement[problem_.group_ops(group).front()] == target_) return false;
  add(group);
  return true;
}

Nanoseconds PlacementChain::longest_accepted(Nanoseconds now, double beta, Nanoseconds scale, Random& random) {
  if (beta == 0) return DeltaSimulation::kNoLimit;
  if (beta < 0) return now;
  const double slack = -portable_log(1 - random.uniform()) / beta * static_cast<double>(scale.count);
  return slack < static_cast<double>((DeltaSimulation::kNoLimit - now).count)
             ? now + Nanoseconds{static_cast<std::int64_t>(slack)}
             : DeltaSimulation::kNoLimit;
}

void PlacementChain::step() {
  ++evaluations_;  // a proposal that changes nothing has the known cost
  if (!propose()) return;
  const Nanoseconds limit =
      longest_accepted(current_.makespan, beta_, fixed_scale_.value_or(best_outcome_.makespan), random_);
  const DeltaResult result =
      delta_.try_move(moving_, target_, current_.excess.count > 0 ? DeltaSimulation::kNoLimit : limit);
  if (!result.complete()) return;
  const Outcome next{excess(), result.makespan};
  if (next.excess != current_.excess ? next.excess > current_.excess : next.makespan > limit) {
    delta_.reject();
    return;
  }
  delta_.accept();
  ++taken_;
  current_ = next;
  if (next < best_outcome_) {
    best_ = delta_.schedule().placement;
    best_outcome_ = next;
  }
}

void PlacementChain::rewind() {
  if (current_ == best_outcome_) return;
  Schedule best = delta_.schedule();
  best.placement = best_;
  delta_ = DeltaSimulation{problem_, std::move(best)};
  current_ = best_outcome_;
}

}  // namespace trainyard
