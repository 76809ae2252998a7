#include "trainyard/place/fastt/os_dpos.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/place/groups.hpp"
#include "trainyard/place/memory.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/transform/op_spec.hpp"
#include "trainyard/transform/parameter_use.hpp"

namespace trainyard {
namespace {

/// The replica of a copy "conv@2", from 0; none of what all share.
std::optional<std::size_t> replica_of(std::string_view name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string_view::npos || at + 1 == name.size()) return std::nullopt;
  std::size_t number = 0;
  for (const char digit : name.substr(at + 1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = number * 10 + static_cast<std::size_t>(digit - '0');
  }
  return number - 1;
}

class SplitSearch {
 public:
  SplitSearch(const Problem& problem, const OsDposOptions& options)
      : problem_(problem), options_(options), engine_(problem, options.dpos.rules) {}

  std::vector<GraphSplit> run() {
    const Graph& graph = problem_.graph();
    shortest_ = engine_.plan();
    std::vector<std::pair<Nanoseconds, OpId>> by_time;
    for (const auto node : engine_.scheduled_path()) by_time.emplace_back(engine_.duration(node), OpId{node});
    std::ranges::stable_sort(by_time, std::ranges::greater{}, &std::pair<Nanoseconds, OpId>::first);
    std::vector<GraphSplit> splits;
    std::size_t idle = 0;
    for (const auto& [time, op] : by_time) {
      if (idle >= options_.patience || (options_.stop && options_.stop())) break;
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
    return splits;
  }

 private:
  /// None where it cannot be split, 0 parts where no split gains.
  std::optional<GraphSplit> best_split(OpId op) {
    const Graph& graph = problem_.graph();
    std::optional<GraphSplit> best;
    for (const SplitDimension dimension : {SplitDimension::batch, SplitDimension::channel}) {
      const std::size_t most = std::min(most_parts(graph, op, dimension), problem_.device_count());
      for (std::size_t parts = 2; parts <= most; ++parts) {
        const std::vector<OpSpec> specs = split_op_specs(graph, op, dimension, parts);
        if (specs.empty()) continue;
        if (!best) best = GraphSplit{.op = std::string{graph.name(op)}, .parts = 0};
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
  for (std::size_t g = 0; g < problem.group_count(); ++g) {
    const GroupId group{g};
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
  Schedule schedule{.placement = Placement(problem.op_count()), .splits = problem.splits()};
  for (const OpId op : problem.ops()) schedule.placement[op] = device[problem.group(op)];
  return schedule;
}

std::vector<GraphSplit> fastt_input(const Problem& problem, OsDposOptions::Input input) {
  if (input == OsDposOptions::Input::graph || !problem.splits().empty() || !trains_parameters(problem.graph()))
    return {};
  const std::vector<GraphSplit> replicated{{.op = "", .parts = problem.device_count()}};
  if (input == OsDposOptions::Input::replicas || problem.device_count() == 1) return replicated;
  const Problem parallel = problem.with_splits(replicated);
  const Schedule schedule = data_parallel_schedule(parallel, problem.device_count());
  // The ledger too: ops that are believed to take no time hold nothing in simulation.
  MemoryLedger ledger{parallel};
  for (std::size_t g = 0; g < parallel.group_count(); ++g)
    ledger.take(GroupId{g}, schedule.placement[parallel.group_ops(GroupId{g}).front()]);
  if (ledger.total_excess().count == 0 && simulate(parallel, schedule).fits()) return replicated;
  return {{.op = "", .parts = 1}};
}

Schedule os_dpos(const Problem& problem, const OsDposOptions& options) {
  std::vector<GraphSplit> splits = fastt_input(problem, options.input);
  const Problem input = splits.empty() ? problem : problem.with_splits(splits);
  if (options.split_ops) {
    const std::vector<GraphSplit> found = SplitSearch{input, options}.run();
    splits.insert(splits.end(), found.begin(), found.end());
  }
  if (splits.empty()) return dpos(problem, options.dpos);
  return dpos(problem.with_splits(std::move(splits)), options.dpos);
}

}  // namespace trainyard
