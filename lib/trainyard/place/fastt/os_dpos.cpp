#include "trainyard/place/fastt/os_dpos.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/split_op.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// The replica of a copy such as "conv@2", from 0; none for ops that all replicas share.
std::optional<std::size_t> replica_of(std::string_view name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string_view::npos || at + 1 == name.size()) return std::nullopt;
  std::size_t number = 0;
  for (const char digit : name.substr(at + 1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = number * 10 + static_cast<std::size_t>(digit - '0');
  }
  if (number == 0) return std::nullopt;  // copies are numbered from 1
  return number - 1;
}

class SplitSearch {
 public:
  SplitSearch(const Problem& problem, const OsDposOptions& options)
      : problem_(problem), options_(options), engine_(problem, options.dpos.rules, Checkpoint{options.stop}) {}

  std::vector<SplitOp> run() {
    const Graph& graph = problem_.graph();
    shortest_ = engine_.plan();
    std::vector<std::pair<Nanoseconds, OpId>> by_time;
    for (const auto node : engine_.scheduled_path()) by_time.emplace_back(engine_.duration(node), OpId{node});
    sort_by_descending(by_time, &std::pair<Nanoseconds, OpId>::first);
    std::vector<SplitOp> splits;
    std::size_t idle = 0;
    try {
      for (const auto& [time, op] : by_time) {
        if (idle >= options_.patience) break;
        if (!graph.colocation_group(op).empty() || time == Nanoseconds{0}) continue;
        const auto split = best_split(op);
        if (!split) continue;
        if (split->parts == 0) {
          ++idle;
          continue;
        }
        idle = 0;
        engine_.replace(op, split_op_specs(graph, op, split->dimension, split->parts));
        splits.push_back(*split);
      }
    } catch (const OutOfTime&) {  // in the middle of an op: splits found before it stay
    }
    return splits;
  }

 private:
  /// None if the op cannot be split; 0 parts if no split gains.
  std::optional<SplitOp> best_split(OpId op) {
    const Graph& graph = problem_.graph();
    std::optional<SplitOp> best;
    for (const SplitDimension dimension : {SplitDimension::batch, SplitDimension::channel}) {
      const std::size_t most = std::min(most_parts(graph, op, dimension), problem_.device_count());
      for (std::size_t parts = 2; parts <= most; ++parts) {
        const std::vector<OpSpec> specs = split_op_specs(graph, op, dimension, parts);
        if (specs.empty()) continue;
        if (!best) best = SplitOp{.op = std::string{graph.name(op)}, .parts = 0};
        engine_.replace(op, specs);
        const Nanoseconds makespan = engine_.plan(100, shortest_);
        engine_.restore();
        if (makespan >= shortest_) continue;
        shortest_ = makespan;
        best->dimension = dimension;
        best->parts = parts;
      }
    }
    return best;
  }

  const Problem& problem_;
  const OsDposOptions& options_;
  detail::DposEngine engine_;
  Nanoseconds shortest_{};
};

}  // namespace

Schedule data_parallel_schedule(const Problem& problem, std::size_t replicas) {
  const Graph& graph = problem.graph();
  const auto able = group_devices(problem);
  IdMap<GroupId, DeviceId> device(problem.group_count());
  IdMap<DeviceId, Bytes> held(problem.device_count());
  for (const GroupId group : problem.groups()) {
    const auto ops = problem.group_ops(group);
    const auto devices = able[group];
    const auto replica = replica_of(graph.name(ops.front()));
    const bool shared = std::ranges::any_of(
        ops, [&](OpId op) { return graph.phase(op) == Phase::update || graph.type(op) == kVariableType; });
    if (!shared && replica && *replica < replicas) {
      const DeviceId own{*replica % problem.device_count()};
      device[group] = std::ranges::binary_search(devices, own) ? own : devices.front();
      continue;
    }
    device[group] = *std::ranges::min_element(devices, {}, [&](DeviceId each) { return held[each]; });
    for (const OpId op : ops) held[device[group]] += problem.resident_bytes(op);
  }
  Schedule schedule{.placement = Placement(problem.op_count()), .rewrites = problem.rewrites()};
  for (const OpId op : problem.ops()) schedule.placement[op] = device[problem.group(op)];
  return schedule;
}

std::optional<Replicate> fastt_input(const Problem& problem, OsDposOptions::Input input,
                                     const std::function<bool()>& stop) {
  if (input == OsDposOptions::Input::graph || !problem.rewrites().empty() || !trains_parameters(problem.graph()))
    return std::nullopt;
  const Replicate replicated{.replicas = problem.device_count()};
  if (input == OsDposOptions::Input::replicas || problem.device_count() == 1) return replicated;
  Checkpoint checkpoint{stop};
  const Problem parallel = apply_rewrites(problem, {replicated}, checkpoint);
  const Schedule schedule = data_parallel_schedule(parallel, problem.device_count());
  // The ledger is checked too: ops that are believed to take no time hold nothing in simulation.
  MemoryLedger ledger{parallel};
  for (const GroupId group : parallel.groups())
    ledger.take(group, schedule.placement[parallel.group_ops(group).front()]);
  if (ledger.total_excess().count > 0) return Replicate{.replicas = 1};
  checkpoint();
  return simulate(parallel, schedule).fits() ? replicated : Replicate{.replicas = 1};
}

Schedule os_dpos(const Problem& problem, const OsDposOptions& options) {
  std::vector<Rewrite> rewrites;
  if (const auto replicate = fastt_input(problem, options.input, options.stop)) rewrites.emplace_back(*replicate);
  const Problem input = apply_rewrites(problem, rewrites, Checkpoint{options.stop});
  std::vector<SplitOp> found;
  if (options.split_ops) found = SplitSearch{input, options}.run();
  if (found.empty()) return dpos(input, options.dpos);
  rewrites.insert(rewrites.end(), found.begin(), found.end());
  return dpos(apply_rewrites(problem, rewrites, Checkpoint{options.dpos.stop}), options.dpos);
}

}  // namespace trainyard
