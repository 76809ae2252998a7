#include "trainyard/place/auto/split_moves.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/split_op.hpp"
#include "trainyard/simulate/critical_path.hpp"
#include "trainyard/simulate/edited_simulation.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kOps = 6, kDevices = 2;  // ops tried; devices tried for the second half

/// The kDevices least busy devices other than `but`.
std::vector<DeviceId> least_busy(const Problem& problem, const Timeline& timeline, DeviceId but) {
  std::vector<DeviceId> devices;
  for (const DeviceId device : problem.devices())
    if (device != but) devices.push_back(device);
  sort_by(devices, [&](DeviceId device) { return timeline.devices[device].busy; });
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
  /// A run under fifo, in which splits are tried before their graph is made.
  struct Trial {
    std::optional<EditedSimulation> edited;
    Nanoseconds makespan;  // without the split
    Placement placement;
  };

  /// Makes the first split that shortens the schedule. Returns whether there was one.
  bool try_all() {
    const Problem problem = scheduled_problem(base_, best_.schedule);
    const Graph& graph = problem.graph();
    Simulation simulation{problem};
    const Timeline timeline = simulation.timeline(best_.schedule);
    Trial trial{{}, simulation.makespan({.placement = best_.schedule.placement}), {}};
    // If memory or fair links matter, a run under fifo does not tell enough.
    if (best_.outcome.excess == Bytes{0} && !problem.runs_in_full()) trial.edited.emplace(problem);
    std::vector<std::pair<Nanoseconds, OpId>> critical;
    for (const PathStep& step : critical_path(problem, best_.schedule, timeline))
      if (!step.op.is_none() && graph.colocation_group(step.op).empty())
        critical.emplace_back(timeline.ops[step.op].end - timeline.ops[step.op].start, step.op);
    sort_by_descending(critical, &std::pair<Nanoseconds, OpId>::first);
    std::size_t seen = 0;
    for (const auto& [time, op] : critical) {
      if (time <= Nanoseconds{0} || seen == kOps) break;
      bool splittable = false;
      for (const SplitDimension dimension : {SplitDimension::batch, SplitDimension::channel}) {
        if (most_parts(graph, op, dimension) < 2) continue;
        splittable = true;
        if (left_ == 0 || (stop_ && stop_())) return false;
        --left_;
        if (try_split(problem, timeline, op, dimension, trial)) return true;
      }
      seen += splittable;
    }
    return false;
  }

  /// The devices on which the second half would shorten the run under fifo, found without a copy of the graph.
  std::vector<DeviceId> promising(const Problem& problem, OpId op, SplitDimension dimension,
                                  const std::vector<DeviceId>& devices, Trial& trial) const {
    GraphEdit edit{.first = op, .by = split_op_specs(problem.graph(), op, dimension, 2), .ordered = {}};
    if (edit.by.empty()) return {};
    const std::string name{problem.graph().name(op)}, half = name + "/part1";
    for (std::size_t i = 0; i < edit.by.size(); ++i)
      if (edit.by[i].name.starts_with(name + "/part")) edit.ordered.push_back(i);
    std::vector<DeviceId> found;
    EditedSimulation& edited = *trial.edited;
    edited.replace(edit);
    const Placement& old = best_.schedule.placement;
    trial.placement.assign(edited.op_count(), old[op]);
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (i < op.index()) trial.placement[OpId{i}] = old[OpId{i}];
      if (i > op.index()) trial.placement[OpId{i + edit.by.size() - 1}] = old[OpId{i}];
    }
    for (const DeviceId device : devices) {
      bool runs = true;
      for (std::size_t i = 0; i < edit.by.size(); ++i) {
        DeviceId& at = trial.placement[OpId{op.index() + i}];
        at = edit.by[i].name == half ? device : old[op];
        runs = runs && edited.piece().can_run(OpId{i}, at);
      }
      if (runs && edited.makespan(trial.placement) < trial.makespan) found.push_back(device);
    }
    edited.restore();
    return found;
  }

  bool try_split(const Problem& problem, const Timeline& timeline, OpId op, SplitDimension dimension, Trial& trial) {
    const Graph& graph = problem.graph();
    std::vector<DeviceId> devices = least_busy(problem, timeline, best_.schedule.placement[op]);
    if (trial.edited) {
      try {
        devices = promising(problem, op, dimension, devices, trial);
      } catch (const InputError&) {  // no device can run its parts
        return false;
      }
      evaluations_ += kDevices;
      if (devices.empty()) return false;
    }
    std::vector<Rewrite> splits = best_.schedule.rewrites;
    const std::string name{graph.name(op)};
    splits.emplace_back(SplitOp{.op = name, .dimension = dimension, .parts = 2});
    std::optional<Problem> split;
    try {
      split = apply_rewrites(base_, splits);
    } catch (const InputError&) {  // the op cannot be split so, or no device can run its parts
      return false;
    }
    std::map<std::string_view, DeviceId> known;
    for (const OpId each : problem.ops()) known.emplace(graph.name(each), best_.schedule.placement[each]);
    const DeviceId home = best_.schedule.placement[op];
    Evaluator evaluator{*split};
    bool better = false;
    for (const DeviceId second : devices) {
      Schedule schedule{.placement = Placement(split->op_count(), home), .rewrites = splits};
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
      ordered.schedule.rewrites = splits;
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
