#include "trainyard/place/celeritas/celeritas.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/celeritas/sequential_partition.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/place/kit/predecessors.hpp"
#include "trainyard/place/list/cluster_mapping.hpp"

namespace trainyard {

std::vector<OpId> critical_depth_first(const Problem& problem, const IdMap<OpId, ScaledTime>& rank) {
  Predecessors predecessors{problem.graph()};
  std::vector<OpId> order, open;
  const auto sort_from = [&](std::size_t first) {  // the most critical is last
    const auto added = std::span{open}.subspan(first);
    sort_with(added, [&](OpId a, OpId b) { return rank[a] != rank[b] ? rank[a] < rank[b] : a > b; });
  };
  for (const OpId op : problem.ops())
    if (predecessors.free(op)) open.push_back(op);
  sort_from(0);
  while (!open.empty()) {
    const OpId op = open.back();
    open.pop_back();
    order.push_back(op);
    const std::size_t before = open.size();
    predecessors.taken(op, [&](OpId successor) { open.push_back(successor); });
    sort_from(before);
  }
  return order;
}

Schedule celeritas(const Problem& problem, const CeleritasOptions& options) {
  const IdMap<OpId, ScaledTime> rank = upward_ranks(problem, MeanCosts{problem});
  const std::vector<OpId> order = critical_depth_first(problem, rank);
  const auto parts = static_cast<std::int64_t>(options.clusters * problem.device_count());
  // A group's memory counts in full at its first op.
  const MemoryLedger memory{problem};
  IdMap<OpId, RunWeight> weights(problem.op_count());
  RunWeight limit{};
  for (const OpId op : problem.ops()) {
    const GroupId group = problem.group(op);
    weights[op].time = problem.shortest(op);
    if (problem.group_ops(group).front() == op) weights[op].bytes = memory.need(group).held;
    limit.time += weights[op].time;
  }
  limit.time = Nanoseconds{limit.time.count / parts};
  double room = 0;
  for (const DeviceId device : problem.devices()) {
    const auto capacity = problem.cluster().device(device).memory;
    room += capacity ? static_cast<double>(capacity->count) : 0x1p62;
  }
  limit.bytes = Bytes{static_cast<std::int64_t>(std::min(room / static_cast<double>(parts), 0x1p62))};

  const std::vector<std::size_t> begins =
      sequential_partition(problem.graph(), order, weights, limit, Checkpoint{options.list.stop});
  IdMap<OpId, ClusterId> cluster(problem.op_count());
  for (std::size_t run = 0; run < begins.size(); ++run) {
    const std::size_t end = run + 1 < begins.size() ? begins[run + 1] : order.size();
    for (std::size_t at = begins[run]; at < end; ++at) cluster[order[at]] = ClusterId{run};
  }
  const auto clusters = groups_by_cluster(problem, begins.size(), cluster);
  const std::vector<OpId> ranked = by_descending_rank(problem, rank);
  return list_schedule(problem, options.list, [&](AnalyticPlan& plan) {
    map_clusters(problem, clusters, ranked, ClusterMapping::finish, plan);
    return ranked;
  });
}

}  // namespace trainyard
