#include "trainyard/place/meta/placement_search.hpp"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/place/flexflow/flexflow.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/judge/orders.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/list/etf.hpp"
#include "trainyard/place/list/heft.hpp"
#include "trainyard/place/simple/simple.hpp"

namespace trainyard {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

PlacementSearch::PlacementSearch(const Problem& problem, const PlacementSearchOptions& options, const PlaceOptions& run)
    : problem_(problem),
      run_(run),
      budget_(run.budget.given() ? run.budget : Budget{.evaluations = flexflow_budget(problem)}),
      effort_(budget_, run.stop),
      bound_(run.on_progress ? best_lower_bound(problem).value : Nanoseconds{0}) {
  using Start = PlacementSearchOptions::Start;
  using Order = PlacementSearchOptions::Order;
  Evaluator evaluator{problem};
  std::vector<Schedule> known;
  if (options.start == Start::random) {
    known.push_back(place_random(problem, run.seed));
  } else {
    const auto stop = [this] { return effort_.late(); };
    try {
      known.push_back(heft(problem, {.stop = stop}));
      known.push_back(etf(problem, {.by = EtfOptions::By::finish, .stop = stop}));
    } catch (const OutOfTime&) {  // goes on with those that are done
    }
    known.push_back(place_single(problem));
  }
  std::vector<Schedule> orders;
  if (options.order != Order::rank) orders.push_back({});
  if (options.order != Order::fifo) {
    orders.push_back({.placement = {}, .policy = Policy::priority});
    orders.back().priority = rank_priorities(problem);
  }
  const auto consider = [&](const Schedule& schedule, Schedule& best, Outcome& least) {
    const Clock::time_point began = Clock::now();
    const Outcome outcome = evaluator.outcome(schedule);
    evaluation_ = std::max(evaluation_, std::chrono::duration<double>(Clock::now() - began).count());
    ++before_;
    if (!best.placement.empty() && outcome >= least) return;
    best = schedule;
    least = outcome;
  };
  for (const Schedule& schedule : known) {
    if (!list_.placement.empty() && effort_.late()) break;
    consider(schedule, list_, list_outcome_);
    for (Schedule& each : orders) {
      if (effort_.late()) break;
      each.placement = schedule.placement;
      consider(each, start_, start_outcome_);
    }
  }
  if (!start_.placement.empty()) return;
  start_ = list_;
  start_outcome_ = list_outcome_;
}

Schedule PlacementSearch::under_order(const Placement& placement) const {
  Schedule schedule = start_;
  schedule.placement = placement;
  return schedule;
}

std::uint64_t PlacementSearch::left(std::uint64_t spent) const { return effort_.left(before_ + kOrders + spent); }

bool PlacementSearch::late() const {
  const std::optional<double> left = effort_.seconds_left();
  return effort_.late() || (left && *left < static_cast<double>(kOrders) * evaluation_);
}

double PlacementSearch::share(std::uint64_t spent) const {
  double share = 0;
  if (budget_.evaluations) {
    const auto all = static_cast<double>(std::max<std::uint64_t>(spent + left(spent), 1));
    share = static_cast<double>(spent) / all;
  }
  if (budget_.seconds && *budget_.seconds > 0) share = std::max(share, 1 - *effort_.seconds_left() / *budget_.seconds);
  return std::min(share, 1.0);
}

void PlacementSearch::report(const Outcome& best, std::uint64_t spent) const {
  const Outcome& least = std::min(best, list_outcome_);
  if (run_.on_progress) run_.on_progress({least.makespan, least.excess.count == 0, bound_, before_ + spent});
}

Schedule PlacementSearch::finish(const Placement& best, const Outcome& outcome, std::uint64_t spent) const {
  Ordered found{under_order(best), outcome};
  if (!effort_.late()) {
    Evaluator evaluator{problem_};
    found = best_order(evaluator, found.schedule);
  }
  if (list_outcome_ <= found.outcome) {
    found.schedule = list_;
    found.schedule.plan.reset();
  }
  found.schedule.search = Search{before_ + spent + found.evaluations, std::nullopt};
  return std::move(found.schedule);
}

}  // namespace trainyard
