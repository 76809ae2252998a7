#include "trainyard/simulate/model/transfers.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/simulate/model/fold_loads.hpp"

namespace trainyard::detail {
namespace {

/// Whether the route is one broadcasting egress alone.
bool broadcasts(const Cluster& cluster, const Route& route) {
  return route.links.size() == 1 && route.channels.size() == 1 && cluster.channel(route.channels.front()).broadcast;
}

}  // namespace

PlannedTransfers::PlannedTransfers(const Problem& problem, const Placement& placement) : known_(problem) {
  const Graph& graph = problem.graph();
  const Cluster& cluster = problem.cluster();
  first_of_tensor.reserve(graph.tensor_count() + 1);
  first_channel.push_back(0);
  first_consumer.push_back(0);
  first_other.push_back(0);

  // Consumers of the current tensor on other devices, by (device, id).
  std::vector<std::pair<DeviceId, OpId>> away;
  std::vector<std::pair<DeviceId, OpId>> broadcast;
  for (const TensorId t : graph.tensors()) {
    first_of_tensor.push_back(static_cast<std::uint32_t>(size()));
    const DeviceId home = placement[graph.producer(t)];
    away.clear();
    for (const OpId op : graph.consumers(t))
      if (placement[op] != home) away.emplace_back(placement[op], op);
    if (away.empty()) continue;
    std::ranges::sort(away);

    const auto add = [&](DeviceId destination, const Route& route) {
      tensor.push_back(t);
      from.push_back(home);
      to.push_back(destination);
      duration.push_back(problem.transfer_time(t, home, destination));
      channel.insert(channel.end(), route.channels.begin(), route.channels.end());
      first_channel.push_back(static_cast<std::uint32_t>(channel.size()));
    };
    const auto finish = [&] {
      first_consumer.push_back(static_cast<std::uint32_t>(consumer.size()));
      first_other.push_back(static_cast<std::uint32_t>(other.size()));
    };
    // The consumers served by one broadcast; it is added at its lowest destination.
    broadcast.clear();
    for (const auto& at : away)
      if (broadcasts(cluster, cluster.route(home, at.first))) broadcast.push_back(at);

    for (std::size_t i = 0; i < away.size();) {
      const DeviceId destination = away[i].first;
      const Route route = cluster.route(home, destination);
      std::size_t last = i;
      while (last < away.size() && away[last].first == destination) ++last;
      if (broadcasts(cluster, route)) {
        if (destination == broadcast.front().first) {
          add(destination, route);
          for (const auto& [device, op] : broadcast) {
            if (device != destination && (other.size() == first_other.back() || other.back() != device))
              other.push_back(device);
            consumer.push_back(op);
          }
          finish();
        }
      } else {
        add(destination, route);
        for (std::size_t k = i; k < last; ++k) consumer.push_back(away[k].second);
        finish();
      }
      i = last;
    }
  }
  first_of_tensor.push_back(static_cast<std::uint32_t>(size()));
  if (graph.has_collectives()) add_collectives(problem, placement);
  FoldLoads loads = fold_loads(problem, placement, *this);
  load_of_ = std::move(loads.of);
  loads_ = std::move(loads.channels);
}

void PlannedTransfers::add_collectives(const Problem& problem, const Placement& placement) {
  const Graph& graph = problem.graph();
  number_of.resize(graph.op_count());
  for (const OpId op : graph.ops()) {
    if (!graph.collective(op)) continue;
    number_of[op] = static_cast<std::uint32_t>(collectives.size());
    collectives.push_back(op);
    const CollectiveRun& run = known_.of(op, placement);
    runs_.push_back(&run);
    tensor.push_back(TensorId::none());
    from.push_back(run.hops.empty() ? DeviceId::none() : run.hops[run.slowest].from);
    to.push_back(run.hops.empty() ? DeviceId::none() : run.hops[run.slowest].to);
    duration.push_back(run.time);
    for (const OpId member : graph.before(op)) consumer.push_back(member);
    first_consumer.push_back(static_cast<std::uint32_t>(consumer.size()));
    first_other.push_back(static_cast<std::uint32_t>(other.size()));
  }
}

}  // namespace trainyard::detail
