#include "trainyard/problem/collective_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_set>

namespace trainyard {
namespace {

using Hop = std::pair<DeviceId, DeviceId>;

/// Hops that go at the same time.
std::vector<Hop> ring(const std::vector<DeviceId>& devices, std::size_t stride) {
  std::vector<Hop> hops;
  for (std::size_t i = 0; i < devices.size(); ++i) hops.push_back({devices[i], devices[(i + stride) % devices.size()]});
  return hops;
}

struct Step {
  Nanoseconds latency, time;
};

/// `bytes` over each of the hops at once.
Step step_over(const Problem& problem, const std::vector<Hop>& hops, Bytes bytes) {
  const Cluster& cluster = problem.cluster();
  std::map<std::uint32_t, Step> of_class;
  std::map<ChannelId, Nanoseconds> load;
  Step longest{};
  for (const auto& [from, to] : hops) {
    const std::uint32_t route_class = cluster.route_class(from, to);
    const auto [at, added] = of_class.try_emplace(route_class);
    Step& hop = at->second;
    if (added) {
      hop.latency = problem.transfer_latency(route_class);
      hop.time = hop.latency + problem.costs().byte_time(bytes, cluster.route_classes()[route_class]);
    }
    longest.latency = std::max(longest.latency, hop.latency);
    longest.time = std::max(longest.time, hop.time);
    for (const ChannelId channel : cluster.route(from, to).channels)
      load[channel] += cluster.channel(channel).fair ? hop.time - hop.latency : hop.time;
  }
  for (const auto& [channel, time] : load) longest.time = std::max(longest.time, time);
  return longest;
}

std::size_t node_count(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  const auto& fabric = cluster.spec().fabric;
  if (!fabric) return 1;
  std::set<std::size_t> hosts;
  for (const DeviceId device : devices) hosts.insert(device.index() / fabric->devices_per_host);
  return hosts.size();
}

}  // namespace

CollectiveRun collective_run(const Problem& problem, const CollectiveTask& task, const std::vector<DeviceId>& devices) {
  CollectiveRun run{};
  const auto n = static_cast<std::int64_t>(devices.size());
  if (n == 1) return run;
  const Bytes share{(task.bytes.count + n - 1) / n};
  const auto take = [&](const std::vector<Hop>& hops, Bytes bytes, std::int64_t times) {
    const Step step = step_over(problem, hops, bytes);
    run.latency += times * step.latency;
    run.time += times * step.time;
    run.hops.insert(run.hops.end(), hops.begin(), hops.end());
  };
  switch (task.kind) {
    case CollectiveKind::all_reduce:
      take(ring(devices, 1), share, 2 * (n - 1));
      break;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      take(ring(devices, 1), share, n - 1);
      break;
    case CollectiveKind::all_to_all:
      for (std::size_t k = 1; k < devices.size(); ++k) take(ring(devices, k), share, 1);
      break;
    case CollectiveKind::broadcast: {
      std::vector<Hop> chain = ring(devices, 1);
      chain.pop_back();
      const Step whole = step_over(problem, chain, task.bytes);
      const double ratio = static_cast<double>((whole.time - whole.latency).count) /
                           static_cast<double>(std::max<std::int64_t>(1, whole.latency.count));
      const auto pieces = std::clamp<std::int64_t>(std::llround(std::sqrt(static_cast<double>(n - 2) * ratio)), 1,
                                                   std::max<std::int64_t>(1, task.bytes.count));
      take(chain, Bytes{(task.bytes.count + pieces - 1) / pieces}, n - 2 + pieces);
      break;
    }
  }
  const Cluster& cluster = problem.cluster();
  if (const auto known =
          problem.costs().collective_time(task.kind, task.bytes, devices.size(), node_count(cluster, devices))) {
    run.time = *known;
    run.latency = std::min(run.latency, run.time);
  }
  for (std::size_t i = 0; i < run.hops.size(); ++i) {
    const Route route = cluster.route(run.hops[i].first, run.hops[i].second);
    if (route.bandwidth < cluster.route(run.hops[run.slowest].first, run.hops[run.slowest].second).bandwidth)
      run.slowest = i;
    run.channels.insert(run.channels.end(), route.channels.begin(), route.channels.end());
  }
  std::ranges::sort(run.channels);
  run.channels.erase(std::unique(run.channels.begin(), run.channels.end()), run.channels.end());
  return run;
}

std::vector<DeviceId> collective_devices(const Graph& graph, OpId collective, const Placement& placement) {
  std::vector<DeviceId> devices;
  const CollectiveTask& task = *graph.collective(collective);
  const DeviceId first = placement[graph.after(collective).front()];
  for (std::size_t rank = 0; rank < task.ranks; ++rank) devices.push_back(DeviceId{first.index() + rank * task.stride});
  if (task.ranks > 1) return devices;
  std::unordered_set<std::size_t> met{first.index()};
  for (const auto ops : {graph.after(collective), graph.before(collective)})
    for (const OpId op : ops)
      if (met.insert(placement[op].index()).second) devices.push_back(placement[op]);
  return devices;
}

std::vector<CollectivePart> collective_parts(const Graph& graph, OpId collective, const Placement& placement) {
  std::vector<CollectivePart> parts;
  const auto devices = collective_devices(graph, collective, placement);
  if (devices.size() == 1) return parts;
  std::vector<std::uint8_t> served(devices.size(), 0);
  served[0] = graph.collective(collective)->kind == CollectiveKind::broadcast;
  for (const OpId member : graph.before(collective)) {
    const auto at = static_cast<std::size_t>(std::ranges::find(devices, placement[member]) - devices.begin());
    if (graph.outputs(member).empty() || served[at]) continue;
    served[at] = 1;
    parts.push_back({*graph.outputs(member).begin(), devices[(at + devices.size() - 1) % devices.size()], devices[at]});
  }
  return parts;
}

Bytes sent_by_each(const CollectiveTask& task, std::size_t devices) {
  const auto n = static_cast<std::int64_t>(devices);
  if (n == 1) return Bytes{0};
  if (task.kind == CollectiveKind::broadcast) return task.bytes;
  const Bytes share{(task.bytes.count + n - 1) / n};
  return (task.kind == CollectiveKind::all_reduce ? 2 : 1) * (n - 1) * share;
}

}  // namespace trainyard
