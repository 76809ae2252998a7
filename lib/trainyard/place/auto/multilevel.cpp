#include "trainyard/place/auto/multilevel.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/place/auto/island.hpp"
#include "trainyard/place/judge/coarse.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kTargets[] = {200, 800}, kMostDevices = 64;
constexpr double kHeat = 0.03;

/// Puts each colocation group of clusters on the device that has most of its op time, among those that can run all of
/// it.
Placement coarse_placement(const Problem& problem, const Coarsening& coarsening, const Problem& coarse,
                           const Placement& placement) {
  Placement result(coarse.op_count());
  for (const GroupId group : coarse.groups()) {
    std::vector<Nanoseconds> time(problem.device_count());
    for (const OpId cluster : coarse.group_ops(group))
      for (const OpId op : coarsening.members[ClusterOpId{cluster.index()}])
        time[placement[op].index()] += problem.shortest(op) + Nanoseconds{1};
    std::optional<DeviceId> best;
    for (const DeviceId device : problem.devices()) {
      if (best && time[device.index()] <= time[best->index()]) continue;
      if (std::ranges::all_of(coarse.group_ops(group), [&](OpId op) { return coarse.can_run(op, device); }))
        best = device;
    }
    for (const OpId cluster : coarse.group_ops(group)) result[cluster] = best.value();
  }
  return result;
}

}  // namespace

std::optional<Ordered> multilevel_search(const Problem& problem, const Placement& start, const Budget& budget,
                                         Random random, const std::function<bool()>& stop) {
  const double levels = static_cast<double>(std::size(kTargets));
  if (problem.device_count() > kMostDevices) return std::nullopt;
  Placement placement = start;
  double done = 0;
  for (const std::size_t target : kTargets) {
    if (stop && stop()) break;
    const Coarsening coarsening = coarsen(problem, target);
    const std::size_t count = coarsening.members.rows();
    if (count < 2 || count > problem.op_count() / 2) continue;
    std::optional<SearchGround> ground;
    try {
      ground.emplace(coarse_problem(problem, coarsening));
    } catch (const InputError&) {  // no device can run all clusters of a colocation group
      continue;
    }
    const Problem& coarse = ground->problem;
    const Schedule fifo{.placement = coarse_placement(problem, coarsening, coarse, placement)};
    Island island{*ground, in_started_order(coarse, fifo.placement, Simulation{coarse}.timeline(fifo)),
                  Random{random.next()}};
    const double share = static_cast<double>(count) / static_cast<double>(problem.op_count());
    Budget level;
    const auto evaluations = static_cast<double>(budget.evaluations.value_or(Effort::kUnlimited));
    level.evaluations = static_cast<std::uint64_t>(std::min(1e9, evaluations / levels / share));
    if (budget.seconds) level.seconds = *budget.seconds / levels;
    island.run(level, stop, kHeat);
    done += share * static_cast<double>(island.evaluations());
    for (const OpId op : problem.ops()) placement[op] = island.best().placement[OpId{coarsening.cluster[op].index()}];
  }
  Evaluator evaluator{problem};
  Ordered result = best_order(evaluator, {.placement = std::move(placement)});
  result.evaluations += static_cast<std::size_t>(done);
  return result;
}

}  // namespace trainyard
