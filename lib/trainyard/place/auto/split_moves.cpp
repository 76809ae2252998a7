#include "trainyard/place/auto/split_moves.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/place/evaluator.hpp"
#include "trainyard/simulate/critical_path.hpp"
#include "trainyard/transform/split_op.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kOps = 6, kDevices = 2;  // of the critical path; for the second half

/// The devices that run least, but for one.
std::vector<DeviceId> least_busy(const Problem& problem, const Timeline& timeline, DeviceId but) {
  std::vector<DeviceId> devices;
  for (const DeviceId device : problem.devices())
    if (device != but) devices.push_back(device);
  std::ranges::stable_sort(devices, {}, [&](DeviceId device) { return timeline.devices[device].busy; });
  if (devices.size() > kDevices) devices.resize(kDevices);
  return devices;
}

class SplitMoves {
 public:
  SplitMoves(const Problem& problem, const Ordered& start, std::size_t most, std::uint64_t& evaluations,
             const std::function<bool()>& stop)
      : base_(problem), best_(start), left_(most), evaluations_(evaluations), stop_(stop) {}

  std::optional<Ordered> run() {
    bool any = false;
    while (try_all()) any = true;
    return any ? std::optional{std::move(best_)} : std::nullopt;
  }

 private:
  /// The first split that shortens the schedule.
  bool try_all() {
    const Problem problem = scheduled_problem(base_, best_.schedule);
    const Graph& graph = problem.graph();
    Simulation simulation{problem};
    const Timeline timeline = simulation.timeline(best_.schedule);
    std::vector<std::pair<Nanoseconds, OpId>> critical;
    for (const PathStep& step : critical_path(problem, best_.schedule, timeline))
      if (!step.op.is_none() && graph.colocation_group(step.op).empty())
        critical.emplace_back(timeline.ops[step.op].end - timeline.ops[step.op].start, step.op);
    std::ranges::stable_sort(critical, std::ranges::greater{}, &std::pair<Nanoseconds, OpId>::first);
    std::size_t seen = 0;
    for (const auto& [time, op] : critical) {
      if (time <= Nanoseconds{0} || seen == kOps) break;
      bool splittable = false;
      for (const SplitDimension dimension : {SplitDimension::batch, SplitDimension::channel}) {
        if (most_parts(graph, op, dimension) < 2) continue;
        splittable = true;
        if (left_ == 0 || (stop_ && stop_())) return false;
        --left_;
        if (try_split(problem, timeline, op, dimension)) return true;
      }
      seen += splittable;
    }
    return false;
  }

  bool try_split(const Problem& problem, const Timeline& timeline, OpId op, SplitDimension dimension) {
    const Graph& graph = problem.graph();
    std::vector<GraphSplit> splits = best_.schedule.splits;
    const std::string name{graph.name(op)};
    splits.push_back({.op = name, .dimension = dimension, .parts = 2});
    std::optional<Problem> split;
    try {
      split = base_.with_splits(splits);
    } catch (const InputError&) {  // cannot be split so after all, or its parts can run nowhere
      return false;
    }
    std::map<std::string_view, DeviceId> known;
    for (const OpId each : problem.ops()) known.emplace(graph.name(each), best_.schedule.placement[each]);
    const DeviceId home = best_.schedule.placement[op];
    Evaluator evaluator{*split};
    bool better = false;
    for (const DeviceId second : least_busy(problem, timeline, home)) {
      Schedule schedule{.placement = Placement(split->op_count(), home), .splits = splits};
      bool runs = true;
      for (const OpId each : split->ops()) {
        const std::string_view own = split->graph().name(each);
        const auto at = known.find(own);
        if (at != known.end())
          schedule.placement[each] = at->second;
        else if (own == name + "/part1")
          schedule.placement[each] = second;
        runs = runs && split->can_run(each, schedule.placement[each]);
      }
      if (!runs) continue;
      Ordered ordered = best_order(evaluator, schedule);
      evaluations_ += ordered.evaluations;
      if (ordered.outcome >= best_.outcome) continue;
      ordered.schedule.splits = splits;
      best_ = std::move(ordered);
      better = true;
    }
    return better;
  }

  const Problem& base_;
  Ordered best_;
  std::size_t left_;
  std::uint64_t& evaluations_;
  const std::function<bool()>& stop_;
};

}  // namespace

std::optional<Ordered> split_critical_ops(const Problem& problem, const Ordered& start, std::size_t most,
                                          std::uint64_t& evaluations, const std::function<bool()>& stop) {
  if (problem.device_count() < 2) return std::nullopt;
  return SplitMoves{problem, start, most, evaluations, stop}.run();
}

}  // namespace trainyard
