#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/support.hpp"
#include "support/written_out.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

/// A collective on some devices. All start at 0.
struct Group {
  std::vector<std::size_t> devices;
  CollectiveTask task;
};

/// End of each collective, in ns.
std::vector<std::int64_t> ends(const ClusterSpec& spec, const std::vector<Group>& groups) {
  GraphBuilder builder{"groups"};
  Placement placement;
  std::vector<OpId> collectives;
  const std::vector<GivenTime> at_once{{"gpu", Nanoseconds{0}}};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string group = std::to_string(g) + "@";
    OpSpec sum{.name = group + "sum", .collective = groups[g].task};
    for (const std::size_t device : groups[g].devices) {
      const std::string name = group + std::to_string(device);
      builder.add({.name = "make" + name, .times = at_once, .outputs = {{"array" + name, Bytes{1}}}});
      placement.push_back(DeviceId{device});
      sum.after.push_back("make" + name);
    }
    collectives.emplace_back(placement.size());
    builder.add(sum);
    placement.push_back(DeviceId{groups[g].devices.front()});
    for (const std::size_t device : groups[g].devices) {
      const std::string name = group + std::to_string(device);
      builder.add({.name = "have" + name,
                   .times = at_once,
                   .inputs = {"array" + name},
                   .outputs = {{"result" + name, Bytes{1}, true}},
                   .after = {group + "sum"}});
      placement.push_back(DeviceId{device});
    }
  }
  const Timeline timeline =
      simulate(Problem{std::move(builder).build(), make_cluster(spec)}, {.placement = std::move(placement)});
  std::vector<std::int64_t> times;
  for (const OpId collective : collectives) times.push_back(timeline.ops[collective].end.count);
  return times;
}

Group all_reduce(std::vector<std::size_t> devices, std::int64_t bytes) {
  return {std::move(devices), {CollectiveKind::all_reduce, Bytes{bytes}}};
}

/// Network cards carry 1 byte per ns, ports 8. The latency between hosts is 2 x 3 ns, and 2 x 1 more between leaves.
FabricSpec racks(std::size_t hosts, std::size_t devices, std::size_t hosts_per_leaf, double oversubscription) {
  return {.hosts = hosts,
          .devices_per_host = devices,
          .port_bandwidth = BytesPerSecond{8e9},
          .port_latency = Nanoseconds{1},
          .nics_per_host = devices,
          .nic_bandwidth = BytesPerSecond{1e9},
          .nic_latency = Nanoseconds{3},
          .leaf = FabricSpec::Leaf::rack,
          .hosts_per_leaf = hosts_per_leaf,
          .oversubscription = oversubscription,
          .uplink_latency = Nanoseconds{1},
          .sharing = Sharing::fair};
}

TEST_CASE("two all-reduces over an oversubscribed uplink take twice as long as one, but for their latency") {
  // The 4 cards of a leaf's two hosts, oversubscribed by 4, share one uplink. Each ring passes it once each way.
  const ClusterSpec spec = cluster_of(racks(4, 2, 2, 4));
  const Group first = all_reduce({0, 2, 4, 6}, 4'000), second = all_reduce({1, 3, 5, 7}, 4'000);
  const std::vector<std::int64_t> alone{6 * (8 + 1'000)};
  CHECK(ends(spec, {first}) == alone);
  CHECK(ends(spec, {second}) == alone);
  CHECK(ends(spec, {first, second}) == std::vector<std::int64_t>{6 * (8 + 2'000), 6 * (8 + 2'000)});
  // A collective of half the bytes ends when both have moved as much. The other then has the uplink to itself.
  const Group half = all_reduce({1, 3, 5, 7}, 2'000);
  CHECK(ends(spec, {first, half}) == std::vector<std::int64_t>{6 * (8 + 500 + 1'000), 6 * (8 + 1'000)});
  // With two spines, nothing is shared. On serial links, one collective runs after the other.
  CHECK(ends(cluster_of(racks(4, 2, 2, 2)), {first, second}) == std::vector<std::int64_t>{alone[0], alone[0]});
  ClusterSpec serial = spec;
  serial.fabric->sharing = Sharing::serial;
  CHECK(ends(serial, {first, second}) == std::vector<std::int64_t>{alone[0], 2 * alone[0]});
}

TEST_CASE("eight all-reduces at once, a card each, take as many times as long as leaves are oversubscribed") {
  for (const int over : {1, 2, 4, 8}) {
    std::vector<Group> groups;
    for (std::size_t card = 0; card < 8; ++card) groups.push_back(all_reduce({card, 8 + card}, 2'000));
    // The 8 cards of a host use 8 / over spines in turn, `over` cards on each.
    const std::vector<std::int64_t> each(8, 2 * (8 + 1'000 * over));
    CHECK(ends(cluster_of(racks(2, 8, 1, over)), groups) == each);
  }
}

TEST_CASE("one all-reduce with a ring for each of eight cards is held back by their uplinks just so") {
  for (const int over : {1, 2, 4, 8}) {
    std::vector<std::size_t> all(16);
    for (std::size_t i = 0; i < 16; ++i) all[i] = i;
    // 30 steps of 12,800 / (16 x 8) = 100 bytes: an uplink carries those of `over` rings, a port those of 7 or 8.
    CHECK(ends(cluster_of(racks(2, 8, 1, over)), {all_reduce(all, 12'800)}) ==
          std::vector<std::int64_t>{30 * std::max(8 + 100, 100 * over)});
  }
}

/// The racks in two pods, with 10 ns between pods.
FabricSpec pods_of(FabricSpec racks, double core_oversubscription) {
  racks.hosts_per_pod = racks.hosts / 2;
  racks.core_oversubscription = core_oversubscription;
  racks.core_latency = Nanoseconds{1};
  return racks;
}

TEST_CASE("n all-reduces between pods over u core links have u / n of a card's bandwidth each") {
  // Hosts 0 to 11 pair with those of the other pod. Each has its own leaf, and there are 12 / over core links.
  for (const int over : {1, 2, 3, 4, 6, 12}) {
    std::vector<Group> groups;
    for (std::size_t host = 0; host < 12; ++host) groups.push_back(all_reduce({host, 12 + host}, 2'000));
    CHECK(ends(cluster_of(pods_of(racks(24, 1, 1, 1), over)), groups) ==
          std::vector<std::int64_t>(12, 2 * (10 + 1'000 * over)));
  }
  // Five rings use two cores in turn: three the first, two the second. On serial links, one runs after the other.
  std::vector<Group> groups;
  for (std::size_t host = 0; host < 5; ++host) groups.push_back(all_reduce({host, 5 + host}, 6'000));
  const std::int64_t three = 2 * (10 + 9'000), two = 2 * (10 + 6'000), one = 2 * (10 + 3'000);
  FabricSpec fabric = pods_of(racks(10, 1, 1, 1), 2.5);
  CHECK(ends(cluster_of(fabric), groups) == std::vector<std::int64_t>{three, two, three, two, three});
  fabric.sharing = Sharing::serial;
  CHECK(ends(cluster_of(fabric), groups) == std::vector<std::int64_t>{one, one, 2 * one, 2 * one, 3 * one});
}

TEST_CASE("one all-reduce over the hosts of two pods is held back by the uplinks and cores that its rings share") {
  std::vector<std::size_t> all(32);
  for (std::size_t i = 0; i < 32; ++i) all[i] = i;
  for (const int over : {1, 2, 4, 8}) {
    // Each ring crosses between the pods once each way. 31 steps of 25,600 / (32 x 8) = 100 bytes: an uplink or a core
    // link carries those of `over` rings.
    const ClusterSpec pods = cluster_of(pods_of(racks(4, 8, 1, over), 1));
    CHECK(ends(pods, {{all, {CollectiveKind::reduce_scatter, Bytes{25'600}}}}) ==
          std::vector<std::int64_t>{31 * std::max(10 + 100, 100 * over)});
    // All-reduce by rings: 62 such steps. By trees: latencies of 2 levels of hosts (10) and 7 hops within a host (2),
    // up and down, and the bytes of 64 parts.
    CHECK(ends(pods, {all_reduce(all, 25'600)}) ==
          std::vector<std::int64_t>{
              std::min(62 * std::max(10 + 100, 100 * over), 2 * (2 * 10 + 7 * 2) + 64 * 100 * over)});
  }
}

TEST_CASE("an all-to-all over an oversubscribed uplink takes the sum of what crosses it in each step") {
  // 4 devices, two per leaf with one uplink. In the three steps, 1, 2 and 1 devices of a leaf send to the other leaf.
  const ClusterSpec spec = cluster_of(racks(4, 1, 2, 2));
  const Group group{{0, 1, 2, 3}, {CollectiveKind::all_to_all, Bytes{4'000}}};
  CHECK(ends(spec, {group}) == std::vector<std::int64_t>{(8 + 1'000) + 2'000 + (8 + 1'000)});
}

TEST_CASE("two network cards a device halve the bytes of a ring between hosts") {
  FabricSpec fabric = racks(2, 2, 2, 1);
  const Group all = all_reduce({0, 1, 2, 3}, 8'000);
  // Two rings of 4 devices: 6 steps of 8,000 / 8 = 1,000 bytes over each card.
  CHECK(ends(cluster_of(fabric), {all}) == std::vector<std::int64_t>{6 * (6 + 1'000)});
  fabric.nics_per_host = 4;
  CHECK(ends(cluster_of(fabric), {all}) == std::vector<std::int64_t>{6 * (6 + 500)});
  fabric.leaf = FabricSpec::Leaf::rail;
  CHECK(ends(cluster_of(fabric), {all}) == std::vector<std::int64_t>{6 * (6 + 500)});
  fabric.sharing = Sharing::serial;
  CHECK(ends(cluster_of(fabric), {all}) == std::vector<std::int64_t>{6 * (6 + 500)});
}

TEST_CASE("an all-reduce over a torus goes along all dimensions at once, both ways round") {
  FabricSpec torus{.hosts = 1, .devices_per_host = 64, .port_bandwidth = BytesPerSecond{1e9}, .torus = {4, 4, 4}};
  std::vector<std::size_t> all(64);
  for (std::size_t i = 0; i < 64; ++i) all[i] = i;
  const auto time = [&](const Group& group) { return ends(cluster_of(torus), {group}).front(); };
  for (const Sharing sharing : {Sharing::serial, Sharing::fair}) {
    torus.sharing = sharing;
    torus.port_latency = Nanoseconds{0};
    // (1 - 1/64) S / (3 B) with S = 384,000 bytes and link bandwidth B. All-gather and reduce-scatter take half of it.
    CHECK(time(all_reduce(all, 384'000)) == 126'000);
    CHECK(time({all, {CollectiveKind::all_gather, Bytes{384'000}}}) == 63'000);
    // Three phases of 2 x 3 steps, each with its latency.
    torus.port_latency = Nanoseconds{5};
    CHECK(time(all_reduce(all, 384'000)) == 126'000 + 18 * 5);
    // A row of n: 2 (n - 1) steps of S / 2n. A square of 4 x 4: S in two parts, with steps of S / 16 and S / 64.
    CHECK(time(all_reduce({0, 1, 2, 3}, 8'000)) == 6 * (5 + 1'000));
    std::vector<std::size_t> square(all.begin(), all.begin() + 16);
    CHECK(time(all_reduce(square, 64'000)) == 6 * (5 + 4'000) + 6 * (5 + 1'000));
    // Half of a row: the way back uses the same links, so S / 2 goes each way.
    CHECK(time(all_reduce({0, 1}, 8'000)) == 2 * (4'000 + (sharing == Sharing::serial ? 5 : 0)));
  }
}

/// Flow that begins at 0, takes `alone` ns by itself, and crosses channel c uses[c] times.
struct Flow {
  double alone;
  std::vector<double> uses;
};
/// Ends of flows under max-min fair rates, in doubles. All rates rise together until a channel is full or a flow is as
/// fast as alone; these flows stop rising, the others go on. Then bytes flow until the first flow ends, and the rates
/// are found again.
std::vector<double> water_filled(const std::vector<Flow>& flows, const std::vector<double>& capacity) {
  std::vector<double> fastest, left, end(flows.size(), 0);
  for (const Flow& flow : flows) {
    double rate = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < capacity.size(); ++c)
      if (flow.uses[c] > 0) rate = std::min(rate, capacity[c] / flow.uses[c]);
    fastest.push_back(rate);
    left.push_back(flow.alone * rate);
  }
  for (double now = 0;;) {
    std::vector<double> rate(flows.size(), 0);
    std::vector<bool> grows(flows.size());
    for (std::size_t f = 0; f < flows.size(); ++f) grows[f] = end[f] == 0;
    if (std::ranges::none_of(grows, [](bool grow) { return grow; })) return end;
    while (std::ranges::any_of(grows, [](bool grow) { return grow; })) {
      double rise = std::numeric_limits<double>::infinity();
      const auto room = [&](std::size_t c) {
        double rest = capacity[c], weight = 0;
        for (std::size_t f = 0; f < flows.size(); ++f) {
          rest -= rate[f] * flows[f].uses[c];
          if (grows[f]) weight += flows[f].uses[c];
        }
        return weight > 0 ? std::max(0.0, rest) / weight : std::numeric_limits<double>::infinity();
      };
      for (std::size_t c = 0; c < capacity.size(); ++c) rise = std::min(rise, room(c));
      for (std::size_t f = 0; f < flows.size(); ++f)
        if (grows[f]) rise = std::min(rise, fastest[f] - rate[f]);
      for (std::size_t f = 0; f < flows.size(); ++f)
        if (grows[f]) rate[f] += rise;
      for (std::size_t f = 0; f < flows.size(); ++f) {
        bool held = rate[f] > fastest[f] * (1 - 1e-12);
        for (std::size_t c = 0; c < capacity.size() && !held; ++c)
          held = flows[f].uses[c] > 0 && room(c) < capacity[c] * 1e-12;
        grows[f] = grows[f] && !held;
      }
    }
    double first = std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (end[f] == 0) first = std::min(first, left[f] / rate[f]);
    now += first;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (end[f] > 0) continue;
      left[f] -= first * rate[f];
      if (left[f] < 1e-6 * fastest[f]) end[f] = now;
    }
  }
}

TEST_CASE("collectives at once over any fabric end when max-min fair rates say, worked out by water filling") {
  std::size_t slowed = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(400U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(77, seed);
    FabricSpec fabric = racks(2 + random.below(5), 1 + random.below(4), 1 + random.below(3), 1);
    if (random.below(2) == 0) fabric.leaf = FabricSpec::Leaf::rail;
    fabric.oversubscription = static_cast<double>(1 + random.below(3));
    fabric.port_latency = fabric.nic_latency = fabric.uplink_latency = Nanoseconds{0};
    if (random.below(2) == 0) {
      fabric.hosts_per_pod = fabric.hosts_per_leaf * (1 + random.below(2));
      fabric.core_oversubscription = static_cast<double>(1 + random.below(3));
    }
    const std::size_t devices = fabric.device_count(), of_host = fabric.devices_per_host;
    if (random.below(4) == 0) fabric.nics_per_host = 1;
    std::vector<Group> groups;
    for (std::size_t g = 1 + random.below(4); g-- > 0;) {
      // Devices at the same range of places on every host, or random ones.
      Group group = all_reduce({}, static_cast<std::int64_t>(10'000'000 + random.below(10'000'000)));
      const std::size_t first = random.below(of_host), width = 1 + random.below(of_host - first);
      const bool whole = random.below(2) == 0;
      for (std::size_t d = 0; d < devices; ++d)
        if (whole ? d % of_host >= first && d % of_host < first + width : random.below(2) == 0)
          group.devices.push_back(d);
      if (group.devices.size() > 1) groups.push_back(group);
    }
    if (groups.empty()) continue;
    const ClusterSpec spec = cluster_of(fabric);
    const Cluster cluster = make_cluster(spec);
    std::vector<double> capacity;
    for (const ChannelId id : cluster.channels()) capacity.push_back(cluster.channel(id).bandwidth.value / 1e9);
    std::vector<Flow> flows;
    for (const Group& group : groups) {
      std::vector<DeviceId> members;
      for (const std::size_t device : group.devices) members.emplace_back(device);
      Flow flow{0, std::vector<double>(cluster.channel_count(), 0)};
      double slowest = std::numeric_limits<double>::infinity();
      const auto rings = collective_rings(cluster, members);
      for (const auto& ring : rings)
        for (std::size_t i = 0; i < ring.size(); ++i) {
          const Route route = cluster.route(ring[i], ring[(i + 1) % ring.size()]);
          slowest = std::min(slowest, route.bandwidth.value / 1e9);
          for (const ChannelId channel : route.channels) flow.uses[channel.index()] += 1;
        }
      for (std::size_t c = 0; c < capacity.size(); ++c)
        if (flow.uses[c] > 0) slowest = std::min(slowest, capacity[c] / flow.uses[c]);
      const auto n = static_cast<std::int64_t>(members.size()), r = static_cast<std::int64_t>(rings.size());
      const std::int64_t share = (group.task.bytes.count + n * r - 1) / (n * r);
      flow.alone = static_cast<double>(2 * (n - 1) * share) / slowest;
      flows.push_back(flow);
    }
    const std::vector<double> expected = water_filled(flows, capacity);
    const std::vector<std::int64_t> found = ends(spec, groups);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      // Each step is rounded to whole nanoseconds per hop, and each end is rounded.
      const double rounding = 2.0 * static_cast<double>(groups[g].devices.size()) * 16 * static_cast<double>(devices);
      CHECK(std::abs(static_cast<double>(found[g]) - expected[g]) <= rounding + 2);
      slowed += expected[g] > 1.01 * flows[g].alone;
    }
  }
  CHECK(slowed > test::rounds(200U));
}

}  // namespace
}  // namespace trainyard::test
