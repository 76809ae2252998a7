#include "trainyard/place/auto/island.hpp"

#include <utility>

#include "trainyard/bound/lower_bounds.hpp"

namespace trainyard {
namespace {

/// Of a search's effort, what goes to windows: where they are a large part of the graph they are worth more.
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
      windows_(ground.problem, Random{random.next()}),
      window_share_(start.policy == Policy::strict ? share_of_windows(ground.problem) : 0) {}

void Island::run(const SearchSlice& slice, std::optional<std::chrono::steady_clock::duration> time) {
  SearchSlice local = slice, windows = slice;
  windows.evaluations = static_cast<std::uint64_t>(static_cast<double>(slice.evaluations) * window_share_);
  local.evaluations = slice.evaluations - windows.evaluations;
  const auto now = std::chrono::steady_clock::now();
  if (time) {
    const std::chrono::duration<double> all = *time;
    local.deadline = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(all * (1 - window_share_));
    windows.deadline = now + *time;
  }
  local_.run(local);
  if (window_share_ == 0 || windows.evaluations == 0) return;
  Schedule schedule = local_.best();
  Outcome outcome = local_.best_outcome();
  if (windows_.run(schedule, outcome, windows)) local_.restart(std::move(schedule));
}

}  // namespace trainyard
