#include "trainyard/throughput/from_problem.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace trainyard {
namespace {

/// The time in picoseconds, clamped to 64 bits; LoadProblem rejects the clamped value as too large.
Picoseconds picoseconds(Nanoseconds time) {
  return Picoseconds{std::min(time.count, std::numeric_limits<std::int64_t>::max() / 1000) * 1000};
}

/// Whether devices pay for communication.
IdMap<DeviceId, std::uint8_t> paying(const Problem& problem) {
  IdMap<DeviceId, std::uint8_t> pays(problem.device_count(), 1);
  bool any = false;
  for (const DeviceId device : problem.devices()) {
    pays[device] = problem.cluster().device(device).device_class == "cpu" ? 0 : 1;
    any = any || pays[device] != 0;
  }
  if (!any) pays.assign(problem.device_count(), 1);
  return pays;
}

/// Kinds of devices, with the route classes that determine each kind's costs.
struct Kinds {
  std::vector<LoadKind> kinds;
  std::vector<std::set<std::uint32_t>> routes;  // route classes, by kind
  std::vector<DeviceId> first;                  // first device, by kind
  IdMap<DeviceId, KindId> of;
};

Kinds find_kinds(const Problem& problem) {
  const auto pays = paying(problem);
  const Cluster& cluster = problem.cluster();
  const auto payers = std::ranges::count(pays, 1);
  Kinds found;
  std::vector<std::tuple<std::size_t, std::optional<Bytes>, bool, std::set<std::uint32_t>>> keys;
  for (const DeviceId device : problem.devices()) {
    std::set<std::uint32_t> routes;
    for (const DeviceId other : problem.devices()) {
      if (other == device || pays[device] == 0 || (pays[other] == 0 && payers > 1)) continue;
      routes.insert(cluster.route_class(device, other));
      routes.insert(cluster.route_class(other, device));
    }
    const Device& about = cluster.device(device);
    const std::tuple key{problem.column(device), about.memory, pays[device] != 0, routes};
    const auto at = std::ranges::find(keys, key);
    found.of.push_back(KindId{static_cast<std::size_t>(at - keys.begin())});
    if (at != keys.end()) continue;
    keys.push_back(key);
    found.kinds.push_back({about.kind.empty() ? about.device_class : about.kind, about.memory, pays[device] != 0});
    found.routes.push_back(std::move(routes));
    found.first.push_back(device);
  }
  return found;
}

/// Color of each op: its colocation group, with groups joined as `mates` says.
std::vector<std::uint32_t> find_colors(const Problem& problem, LoadMates mates) {
  const Graph& graph = problem.graph();
  if (mates == LoadMates::automatic) {
    const auto ops = graph.ops();
    const bool layers = std::any_of(ops.begin(), ops.end(), [&](OpId op) { return !graph.layer(op).empty(); });
    mates = layers ? LoadMates::reads : LoadMates::colors;
  }
  std::vector<std::size_t> joined(problem.group_count());  // the group that it joined, or itself
  std::iota(joined.begin(), joined.end(), std::size_t{0});
  const auto root = [&](std::size_t group) {
    while (joined[group] != group) group = joined[group];
    return group;
  };
  if (mates == LoadMates::reads) {
    const auto is_forward = [&](OpId op) { return graph.phase(op) == Phase::forward; };
    std::vector<bool> orphan(joined.size(), true);
    std::vector<std::vector<bool>> able(joined.size(), std::vector<bool>(problem.device_count(), true));
    IdMap<OpId, std::size_t> position(graph.op_count());
    for (std::size_t i = 0; i < graph.op_count(); ++i) position[graph.topological_order()[i]] = i;
    for (const OpId op : graph.ops()) {
      const std::size_t group = problem.group(op).index();
      if (is_forward(op)) orphan[group] = false;
      for (const DeviceId device : problem.devices())
        if (!problem.can_run(op, device)) able[group][device.index()] = false;
    }
    for (const OpId op : graph.topological_order()) {
      const std::size_t group = problem.group(op).index();
      if (!orphan[group] || joined[group] != group) continue;
      OpId last = OpId::none();
      for (const bool forward : {true, false}) {
        for (const TensorId tensor : graph.inputs(op)) {
          const OpId from = graph.producer(tensor);
          if (is_forward(from) != forward) continue;
          if (last.is_none() || position[from] > position[last]) last = from;
        }
        if (!last.is_none()) break;
      }
      if (last.is_none()) continue;
      // Producers come first in topological order, so a producer's group has usually joined its own group already.
      // Groups with ops at distant positions in the order are the exception.
      const std::size_t with = root(problem.group(last).index());
      if (with == group) continue;
      std::vector<bool> both = able[with];
      for (std::size_t i = 0; i < both.size(); ++i) both[i] = both[i] && able[group][i];
      if (std::ranges::find(both, true) == both.end()) continue;  // no device can run them all
      able[with] = std::move(both);
      joined[group] = with;
    }
  }
  std::vector<std::uint32_t> number(joined.size(), 0), colors;
  std::vector<bool> known(joined.size(), false);
  std::uint32_t next = 0;
  for (const OpId op : graph.ops()) {
    const std::size_t group = root(problem.group(op).index());
    if (!known[group]) number[group] = next++;
    known[group] = true;
    colors.push_back(number[group]);
  }
  return colors;
}

Bytes size_of(const Graph& graph, OpId op, LoadMemory memory) {
  Bytes size = graph.parameter_bytes(op) + graph.state_bytes(op);
  if (memory == LoadMemory::weights) return size;
  for (const TensorId tensor : graph.outputs(op)) {
    const auto readers = graph.consumers(tensor);
    const bool read_later = graph.phase(op) == Phase::forward && std::ranges::any_of(readers, [&](OpId reader) {
                              return graph.phase(reader) != Phase::forward;
                            });
    if (graph.kept(tensor) || read_later) size += graph.bytes(tensor);
  }
  return size;
}

}  // namespace

LoadProblem load_problem(const Problem& problem, const LoadModelOptions& options) {
  const Graph& graph = problem.graph();
  Kinds kinds = find_kinds(problem);
  LoadParts parts{.kinds = std::move(kinds.kinds), .devices = std::move(kinds.of)};
  const std::vector<std::uint32_t> colors = find_colors(problem, options.mates);
  for (const OpId op : problem.ops()) {
    parts.ops.push_back({.name = std::string{graph.name(op)},
                         .backward = graph.phase(op) != Phase::forward,
                         .color = colors[op.index()],
                         .size = size_of(graph, op, options.memory)});
    for (const DeviceId device : kinds.first)
      parts.times.push_back(problem.can_run(op, device) ? picoseconds(problem.duration(op, device)) : kNeverLoad);
  }
  for (const TensorId tensor : graph.tensors()) {
    const auto readers = graph.consumers(tensor);
    parts.tensors.push_back({graph.producer(tensor), {readers.begin(), readers.end()}});
    for (const auto& routes : kinds.routes) {
      Nanoseconds longest{};
      for (const std::uint32_t route : routes) longest = std::max(longest, problem.transfer_time(tensor, route));
      parts.costs.push_back(picoseconds(longest));
    }
  }
  for (const OpId op : problem.ops()) {
    const auto later = graph.before(op);
    if (later.empty()) continue;
    parts.tensors.push_back({op, {later.begin(), later.end()}});
    parts.costs.resize(parts.costs.size() + parts.kinds.size());
  }
  return LoadProblem{std::move(parts)};
}

IdMap<DeviceId, Nanoseconds> device_loads(const Problem& problem, const Placement& placement) {
  check_placement(problem, placement);
  const auto pays = paying(problem);
  const Graph& graph = problem.graph();
  IdMap<DeviceId, Nanoseconds> loads(problem.device_count());
  for (const OpId op : problem.ops()) loads[placement[op]] += problem.duration(op, placement[op]);
  std::vector<DeviceId> receivers;
  for (const TensorId tensor : graph.tensors()) {
    const DeviceId from = placement[graph.producer(tensor)];
    receivers.clear();
    for (const OpId reader : graph.consumers(tensor))
      if (placement[reader] != from) receivers.push_back(placement[reader]);
    std::ranges::sort(receivers);
    receivers.erase(std::unique(receivers.begin(), receivers.end()), receivers.end());
    Nanoseconds longest{};
    for (const DeviceId to : receivers) {
      const Nanoseconds time = problem.transfer_time(tensor, from, to);
      longest = std::max(longest, time);
      if (pays[to] != 0) loads[to] += time;
    }
    if (pays[from] != 0) loads[from] += longest;
  }
  return loads;
}

Nanoseconds max_load(const Problem& problem, const Placement& placement) {
  const auto loads = device_loads(problem, placement);
  return *std::ranges::max_element(loads);
}

}  // namespace trainyard
