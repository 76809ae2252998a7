#include "trainyard/problem/collective_run.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

using Pairs = std::vector<std::pair<DeviceId, DeviceId>>;

/// Concurrent hops: from each device to the one `stride` places further on.
Pairs ring(const std::vector<DeviceId>& devices, std::size_t stride) {
  Pairs hops;
  for (std::size_t i = 0; i < devices.size(); ++i)
    hops.emplace_back(devices[i], devices[(i + stride) % devices.size()]);
  return hops;
}

struct Step {
  Nanoseconds latency, time;
  Nanoseconds flow{0};  // without latencies
};

/// One step: `bytes` over each hop of all rings at once.
Step step_over(const Problem& problem, const std::vector<Pairs>& rings, Bytes bytes) {
  struct Load {
    Nanoseconds flow{0}, latency{0};  // flow: sum over all rings; latency: the longest of one ring
    Nanoseconds of_ring{0};
    std::size_t ring = 0;
  };
  const Cluster& cluster = problem.cluster();
  std::unordered_map<std::uint32_t, Step> of_class;
  std::unordered_map<std::size_t, Load> loads;
  Step longest{};
  for (std::size_t r = 0; r < rings.size(); ++r)
    for (const auto& [from, to] : rings[r]) {
      const std::uint32_t route_class = cluster.route_class(from, to);
      const auto [at, added] = of_class.try_emplace(route_class);
      Step& hop = at->second;
      if (added) {
        hop.latency = problem.transfer_latency(route_class);
        hop.time = hop.latency + problem.costs().byte_time(bytes, cluster.route_classes()[route_class]);
      }
      longest.latency = std::max(longest.latency, hop.latency);
      longest.time = std::max(longest.time, hop.time);
      longest.flow = std::max(longest.flow, hop.time - hop.latency);
      for (const ChannelId channel : cluster.route(from, to).channels) {
        Load& load = loads[channel.index()];
        load.flow += hop.time - hop.latency;
        if (std::exchange(load.ring, r) != r) load.of_ring = Nanoseconds{0};
        if (!cluster.channel(channel).fair) load.of_ring += hop.latency;
        load.latency = std::max(load.latency, load.of_ring);
      }
    }
  for (const auto& [channel, load] : loads) {
    longest.time = std::max(longest.time, load.flow + load.latency);
    longest.flow = std::max(longest.flow, load.flow);
  }
  return longest;
}

/// Total latency of the trees over the hosts of a ring, up and down (CollectiveRun).
Nanoseconds tree_latency(const Problem& problem, const std::vector<DeviceId>& order) {
  const Cluster& cluster = problem.cluster();
  const std::size_t of_host = cluster.spec().fabric->devices_per_host;
  Nanoseconds within{0}, between{0};
  std::map<std::size_t, std::int64_t> of_hosts;
  for (const auto& [from, to] : ring(order, 1)) {
    const bool leaves = from.index() / of_host != to.index() / of_host;
    Nanoseconds& longest = leaves ? between : within;
    longest = std::max(longest, problem.transfer_latency(cluster.route_class(from, to)));
    ++of_hosts[from.index() / of_host];
  }
  std::int64_t most = 0;
  for (const auto& [host, devices] : of_hosts) most = std::max(most, devices);
  return 2 * (static_cast<std::int64_t>(std::bit_width(of_hosts.size() - 1)) * between + (most - 1) * within);
}

/// The lines of a box of devices in a torus, by dimension, without dimensions of size 1.
using BoxLines = std::vector<std::vector<std::vector<DeviceId>>>;

/// The lines of the devices; empty if they do not form a box, or there is no torus.
BoxLines box_lines(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  const auto& fabric = cluster.spec().fabric;
  if (!fabric || fabric->torus.empty() || devices.size() < 2 || host_count(cluster, devices) > 1) return {};
  std::vector<DeviceId> sorted = devices;
  std::ranges::sort(sorted);
  BoxLines dimensions;
  std::size_t box = 1, stride = 1;
  for (const std::size_t size : fabric->torus) {
    std::set<std::size_t> places;
    std::map<std::size_t, std::vector<DeviceId>> lines;  // by the device at position 0 of the line
    for (const DeviceId device : sorted) {
      const std::size_t place = device.index() / stride % size;
      places.insert(place);
      lines[device.index() - place * stride].push_back(device);
    }
    box *= places.size();
    stride *= size;
    if (places.size() == 1) continue;
    dimensions.emplace_back();
    for (auto& [first, line] : lines) dimensions.back().push_back(std::move(line));
  }
  return box == devices.size() ? dimensions : BoxLines{};
}

/// Each line in both directions.
std::vector<std::vector<DeviceId>> both_ways(const std::vector<std::vector<DeviceId>>& lines) {
  std::vector<std::vector<DeviceId>> rings = lines;
  for (const auto& line : lines) rings.emplace_back(line.rbegin(), line.rend());
  return rings;
}

std::vector<Pairs> hops_of(const std::vector<std::vector<DeviceId>>& rings) {
  std::vector<Pairs> hops;
  for (const auto& order : rings) hops.push_back(ring(order, 1));
  return hops;
}

void add_hops(CollectiveRun& run, const std::vector<Pairs>& rings, Bytes bytes) {
  for (const Pairs& hops : rings)
    for (const auto& [from, to] : hops) run.hops.push_back({from, to, bytes});
}

/// `passes`: 2 for an all-reduce, 1 for an all-gather or reduce-scatter.
void take_box(CollectiveRun& run, const Problem& problem, const BoxLines& box, Bytes bytes, std::int64_t passes) {
  std::vector<std::vector<Pairs>> rings;
  for (const auto& lines : box) rings.push_back(hops_of(both_ways(lines)));
  std::vector<std::int64_t> shares(box.size(), 2 * static_cast<std::int64_t>(box.size()));  // number of shares per part
  for (std::size_t phase = 0; phase < box.size(); ++phase) {
    Step longest{};
    for (std::size_t part = 0; part < box.size(); ++part) {
      const std::size_t along = (part + phase) % box.size();
      const auto n = static_cast<std::int64_t>(box[along].front().size()), steps = passes * (n - 1);
      shares[part] *= n;
      const Bytes share{(bytes.count + shares[part] - 1) / shares[part]};
      const Step step = step_over(problem, rings[along], share);
      if (steps * step.time > longest.time) longest = {steps * step.latency, steps * step.time, {}};
      add_hops(run, rings[along], steps * share);
    }
    run.latency += longest.latency;
    run.time += longest.time;
  }
}

}  // namespace

std::size_t host_count(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  const auto& fabric = cluster.spec().fabric;
  if (!fabric) return 1;
  std::vector<std::size_t> hosts;
  for (const DeviceId device : devices) hosts.push_back(device.index() / fabric->devices_per_host);
  std::ranges::sort(hosts);
  return static_cast<std::size_t>(std::unique(hosts.begin(), hosts.end()) - hosts.begin());
}

std::vector<std::vector<DeviceId>> collective_rings(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  const auto& fabric = cluster.spec().fabric;
  if (const BoxLines box = box_lines(cluster, devices); !box.empty()) {
    std::vector<std::vector<DeviceId>> rings;
    for (const auto& lines : box)
      for (auto& order : both_ways(lines)) rings.push_back(std::move(order));
    return rings;
  }
  const std::size_t of_host = fabric ? fabric->devices_per_host : 1, hosts = host_count(cluster, devices);
  const std::size_t g = devices.size() / hosts;
  bool alike = hosts > 1 && g > 1 && devices.size() % g == 0;
  for (std::size_t i = 0; i < devices.size() && alike; ++i)
    alike = devices[i].index() % of_host == devices[i % g].index() % of_host &&
            devices[i].index() / of_host == devices[i - i % g].index() / of_host;
  if (!alike) return {devices};
  std::vector<std::vector<DeviceId>> rings;
  std::set<std::size_t> cards;
  for (std::size_t first = 0; first < g; ++first) {
    if (!cards.insert(devices[first].index() % of_host / fabric->devices_per_card()).second) continue;
    rings.emplace_back();
    for (std::size_t host = 0; host < hosts; ++host)
      for (std::size_t i = 0; i < g; ++i)
        rings.back().push_back(devices[host * g + (first + (host % 2 == 0 ? i : g - 1 - i)) % g]);
  }
  return rings;
}

CollectiveRun collective_run(const Problem& problem, const CollectiveTask& task, const std::vector<DeviceId>& devices) {
  if (devices.empty()) refuse("size", "a collective has no devices", "give at least one");
  CollectiveRun run{};
  const auto n = static_cast<std::int64_t>(devices.size());
  if (n == 1) return run;
  const Cluster& cluster = problem.cluster();
  std::ptrdiff_t patterns = 0;  // number of sets of concurrent hops, which follow one another
  const auto part = [&](std::int64_t parts) { return Bytes{(task.bytes.count + parts - 1) / parts}; };
  const auto take = [&](const std::vector<Pairs>& rings, Bytes bytes, std::int64_t times) {
    const Step step = step_over(problem, rings, bytes);
    run.latency += times * step.latency;
    run.time += times * step.time;
    add_hops(run, rings, times * bytes);
    ++patterns;
    return step;
  };
  switch (task.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: {
      const std::int64_t passes = task.kind == CollectiveKind::all_reduce ? 2 : 1;
      if (const BoxLines box = box_lines(cluster, devices); !box.empty()) {
        take_box(run, problem, box, task.bytes, passes);
        patterns = static_cast<std::ptrdiff_t>(box.size());
        break;
      }
      const std::vector<std::vector<DeviceId>> orders = collective_rings(cluster, devices);
      const std::vector<Pairs> rings = hops_of(orders);
      const Step step = take(rings, part(n * static_cast<std::int64_t>(rings.size())), passes * (n - 1));
      if (task.kind != CollectiveKind::all_reduce || host_count(cluster, devices) == 1) break;
      const Nanoseconds latency = tree_latency(problem, orders.front());
      const Nanoseconds time = latency + 2 * n * step.flow;
      if (time < run.time) {
        run.time = time;
        run.latency = latency;
      }
      break;
    }
    case CollectiveKind::all_to_all:
      for (std::size_t k = 1; k < devices.size(); ++k) take({ring(devices, k)}, part(n), 1);
      break;
    case CollectiveKind::shift:
      take({ring(devices, 1)}, task.bytes, 1);
      break;
    case CollectiveKind::broadcast: {
      Pairs chain = ring(devices, 1);
      chain.pop_back();
      const Step whole = step_over(problem, {chain}, task.bytes);
      const double ratio = static_cast<double>((whole.time - whole.latency).count) /
                           static_cast<double>(std::max<std::int64_t>(1, whole.latency.count));
      const auto pieces = std::clamp<std::int64_t>(std::llround(std::sqrt(static_cast<double>(n - 2) * ratio)), 1,
                                                   std::max<std::int64_t>(1, task.bytes.count));
      take({chain}, part(pieces), n - 2 + pieces);
      for (CollectiveRun::Hop& hop : run.hops) hop.bytes = task.bytes;
      break;
    }
  }
  if (const auto known =
          problem.costs().collective_time(task.kind, task.bytes, devices.size(), host_count(cluster, devices))) {
    run.time = *known;
    run.latency = std::min(run.latency, run.time);
  }
  std::vector<ChannelId> passed;
  BytesPerSecond least{std::numeric_limits<double>::infinity()};
  for (std::size_t i = 0; i < run.hops.size(); ++i) {
    const Route route = cluster.route(run.hops[i].from, run.hops[i].to);
    if (route.bandwidth < least) run.slowest = i;
    least = std::min(least, route.bandwidth);
    passed.insert(passed.end(), route.channels.begin(), route.channels.end());
  }
  std::ranges::sort(passed);
  for (auto first = passed.begin(); first != passed.end();) {
    const auto last = std::upper_bound(first, passed.end(), *first);
    const std::ptrdiff_t at_once = cluster.channel(*first).fair ? (last - first + patterns - 1) / patterns : 1;
    run.channels.insert(run.channels.end(), static_cast<std::size_t>(at_once), *first);
    first = last;
  }
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

const CollectiveRun& CollectiveRuns::of(OpId collective, const Placement& placement) {
  const CollectiveTask& task = *problem_->graph().collective(collective);
  const auto [at, added] =
      known_.try_emplace({task.kind, task.bytes, collective_devices(problem_->graph(), collective, placement)});
  if (added) at->second = collective_run(*problem_, task, std::get<2>(at->first));
  return at->second;
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
  if (task.kind == CollectiveKind::broadcast || task.kind == CollectiveKind::shift) return task.bytes;
  const Bytes share{(task.bytes.count + n - 1) / n};
  return (task.kind == CollectiveKind::all_reduce ? 2 : 1) * (n - 1) * share;
}

}  // namespace trainyard
