#include "trainyard/place/cut/group_graph.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/judge/retreat.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/place/kit/ranks.hpp"

namespace trainyard {
namespace {

struct Edge {
  std::uint32_t from, to;
  std::int64_t weight;
};

std::vector<Edge> edges_of(const Problem& problem) {
  const Graph& graph = problem.graph();
  const MeanCosts means{problem};
  std::vector<Edge> edges;
  for (const TensorId tensor : graph.tensors()) {
    const auto from = static_cast<std::uint32_t>(problem.group(graph.producer(tensor)).index());
    const auto weight = static_cast<std::int64_t>(means.mean(tensor) / means.scale()) + 1;
    const std::size_t first = edges.size();
    for (const OpId reader : graph.consumers(tensor)) {
      const auto to = static_cast<std::uint32_t>(problem.group(reader).index());
      if (to == from) continue;
      // A group that reads the tensor several times receives it once. Large groups are few, so a linear search will do.
      const bool known = problem.group_ops(GroupId{to}).size() > 1 &&
                         std::any_of(edges.begin() + static_cast<std::ptrdiff_t>(first), edges.end(),
                                     [&](const Edge& edge) { return edge.from == from && edge.to == to; });
      if (known) continue;
      edges.push_back({from, to, weight});
    }
    const std::size_t last = edges.size();
    for (std::size_t e = first; e < last; ++e) edges.push_back({edges[e].to, from, weight});
  }
  std::ranges::sort(edges, {}, [](const Edge& edge) { return std::pair{edge.from, edge.to}; });
  return edges;
}

/// Total edge weight between the group and the groups on each device.
void shared_with(const GroupGraph& graph, const GroupDevices& devices, GroupId group,
                 IdMap<DeviceId, std::int64_t>& shared) {
  std::ranges::fill(shared, 0);
  for (std::size_t e = graph.starts[group.index()]; e < graph.starts[group.index() + 1]; ++e)
    if (const DeviceId device = devices[graph.neighbours[e]]; !device.is_none()) shared[device] += graph.weights[e];
}

}  // namespace

GroupGraph::GroupGraph(const Problem& problem) : able(group_devices(problem)), columns(problem.column_count()) {
  times.assign(problem.group_count() * columns, 0);
  for (const OpId op : problem.ops())
    for (std::size_t c = 0; c < columns; ++c)
      times[problem.group(op).index() * columns + c] += problem.durations()[op.index() * columns + c].count;
  const std::vector<Edge> edges = edges_of(problem);
  auto edge = edges.begin();
  for (std::uint32_t g = 0; g < problem.group_count(); ++g) {
    for (; edge != edges.end() && edge->from == g; ++edge) {
      if (neighbours.size() > starts.back() && neighbours.back().index() == edge->to) {
        weights.back() += edge->weight;
      } else {
        neighbours.push_back(GroupId{edge->to});
        weights.push_back(edge->weight);
      }
    }
    starts.push_back(static_cast<std::uint32_t>(neighbours.size()));
  }
}

void settle_groups(const Problem& problem, const GroupGraph& graph, int percent, GroupDevices& devices) {
  check_entries("the devices", devices.size(), problem.group_count(), "groups");
  MemoryLedger memory{problem, percent};
  IdMap<DeviceId, std::int64_t> loads(problem.device_count(), 0), shared(problem.device_count(), 0);
  struct Stay {
    std::int64_t loss;  // increase of the cut if the group moves to the best other device
    GroupId group;
  };
  std::vector<Stay> stays;
  std::vector<GroupId> homeless;
  for (const GroupId group : devices.ids()) {
    const auto able = graph.able[group];
    if (devices[group].is_none() || !std::ranges::binary_search(able, devices[group])) {
      devices[group] = DeviceId::none();
      homeless.push_back(group);
      continue;
    }
    shared_with(graph, devices, group, shared);
    std::int64_t best = 0;
    for (const DeviceId other : able)
      if (other != devices[group]) best = std::max(best, shared[other]);
    stays.push_back({able.size() == 1 ? kLongestTime.count : shared[devices[group]] - best, group});
  }
  sort_by_descending(stays, &Stay::loss);
  for (const Stay& stay : stays) {
    if (graph.able[stay.group].size() > 1 && memory.excess_with(stay.group, devices[stay.group]) > Bytes{0}) {
      homeless.push_back(stay.group);
      continue;
    }
    memory.take(stay.group, devices[stay.group]);
    loads[devices[stay.group]] += graph.time(stay.group, problem.column(devices[stay.group]));
  }
  for (const GroupId group : homeless) devices[group] = DeviceId::none();
  // The largest groups first, while there is room.
  sort_by_descending(homeless, [&](GroupId group) { return memory.need(group).held; });
  std::vector<DeviceId> with_room;
  for (const GroupId group : homeless) {
    memory.narrow(group, graph.able[group], with_room);
    shared_with(graph, devices, group, shared);
    const DeviceId chosen = *std::ranges::min_element(with_room, {}, [&](DeviceId device) {
      return std::pair{-shared[device], loads[device] + graph.time(group, problem.column(device))};
    });
    devices[group] = chosen;
    memory.take(group, chosen);
    loads[chosen] += graph.time(group, problem.column(chosen));
  }
}

Schedule settled_schedule(const Problem& problem, const GroupGraph& graph, const GroupDevices& devices) {
  Evaluator evaluator{problem};
  return best_retreat([&](int memory_percent) {
    GroupDevices settled = devices;
    settle_groups(problem, graph, memory_percent, settled);
    Schedule schedule;
    for (const OpId op : problem.ops()) schedule.placement.push_back(settled[problem.group(op)]);
    const Outcome outcome = evaluator.memory_binds() ? evaluator.outcome(schedule) : Outcome{};
    return Retreat<Outcome>{std::move(schedule), outcome, outcome.excess == Bytes{0}};
  });
}

}  // namespace trainyard
