#include "trainyard/place/auto/island.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/place/judge/orders.hpp"

namespace trainyard {
namespace {

/// The share of an island's budget that goes to windows; larger on small graphs, of which a window is a large part.
double share_of_windows(const Problem& problem) {
  if (problem.op_count() <= 200) return 0.4;
  return problem.op_count() <= 2'000 ? 0.15 : 0.05;
}

}  // namespace

SearchGround::SearchGround(Problem of)
    : problem(std::move(of)),
      levels(cluster_levels(problem)),
      memory_binds(memory_may_bind(problem)),
      bound(best_lower_bound(problem).value) {}

Island::Island(const SearchGround& ground, const Schedule& start, Random random)
    : ground_(&ground),
      local_(ground.problem, ground.levels, ground.memory_binds, start, random),
      windows_(ground.problem, Random{random.next()}) {}

void Island::run(const Budget& budget, const std::function<bool()>& stop, double heat) {
  Budget local = budget, windows = budget;
  // A restart may have changed the policy.
  const double window_share = best().policy == Policy::strict ? share_of_windows(ground_->problem) : 0;
  if (budget.evaluations) {
    granted_ += *budget.evaluations;
    saved_ = window_share == 0 ? 0 : saved_ + window_share * static_cast<double>(*budget.evaluations);
    windows.evaluations = static_cast<std::uint64_t>(std::max(0.0, saved_));
    const std::uint64_t others = evaluations() + *windows.evaluations;
    local.evaluations = granted_ - std::min(granted_, others);
    if (*windows.evaluations < windows_.least_evaluations()) windows.evaluations = 0;
  }
  if (budget.seconds) local.seconds = *budget.seconds * (1 - window_share);
  const Effort whole{windows, stop};  // windows may run to the end of the seconds
  local_.run(Effort{local, stop}, heat);
  if (best().by_priority() && best_outcome() != reordered_) {
    Schedule schedule = by_bottom_level(ground_->problem, best().placement);
    schedule.rewrites = best().rewrites;
    local_.restart_if_better(std::move(schedule));
    reordered_ = best_outcome();
  }
  if (window_share == 0 || whole.left() == 0) return;
  Schedule schedule = local_.best();
  Outcome outcome = local_.best_outcome();
  const std::uint64_t before = windows_.evaluations();
  const bool better = windows_.run(schedule, outcome, whole);
  // Evaluations that windows leave go to the local search of the next run.
  saved_ = std::min(0.0, saved_ - static_cast<double>(windows_.evaluations() - before));
  if (better) local_.restart(std::move(schedule));
  // Local search uses the seconds that windows leave.
  if (budget.seconds && !budget.evaluations) local_.run(Effort{{.seconds = whole.seconds_left()}, stop}, heat);
}

}  // namespace trainyard
