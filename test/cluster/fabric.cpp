#include "trainyard/cluster/fabric.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "support/written_out.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"

using namespace trainyard;

namespace {

/// 4 hosts of 4 devices and 2 cards; a leaf switch for each rail of two hosts; half as many spines as cards on a leaf:
/// one.
FabricSpec two_rails() {
  return {.hosts = 4,
          .devices_per_host = 4,
          .port_bandwidth = BytesPerSecond{450e9},
          .port_latency = Nanoseconds{2'500},
          .nics_per_host = 2,
          .nic_bandwidth = BytesPerSecond{50e9},
          .nic_latency = Nanoseconds{5'000},
          .hosts_per_leaf = 2,
          .oversubscription = 2,
          .uplink_latency = Nanoseconds{500}};
}

std::vector<std::string> passed(const Cluster& cluster, std::size_t from, std::size_t to) {
  std::vector<std::string> names;
  for (const ChannelId id : cluster.route(DeviceId{from}, DeviceId{to}).channels) {
    const Channel& channel = cluster.channel(id);
    names.push_back(channel.from + ">" + channel.to);
  }
  return names;
}

std::vector<std::string> codes(const ClusterSpec& spec) {
  std::vector<std::string> found;
  for (const Finding& finding : test::findings_of([&] { make_cluster(spec); }))
    found.push_back(finding.code + " " + finding.pointer);
  return found;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("two devices of a fabric reach each other over their host, their leaf, or a spine") {
  const FabricSpec spec = two_rails();
  CHECK(spec.leaf_count() == 4);   // 2 groups of hosts x 2 rails
  CHECK(spec.spine_count() == 1);  // 2 cards on a leaf / 2
  const Cluster cluster = make_cluster(test::cluster_of(spec));
  // 16 ports, 8 cards and 4 x 1 uplinks, each with two directions.
  CHECK(cluster.channel_count() == 2 * (16 + 8 + 4));

  CHECK(passed(cluster, 0, 3) == Names{"d0>host0", "host0>d3"});
  const Route near = cluster.route(DeviceId{0}, DeviceId{3});
  CHECK(near.latency == Nanoseconds{5'000});
  CHECK(near.bandwidth == BytesPerSecond{450e9});

  // d0 and d1 share card 0; d4 and d5 share the card of the next host on the same rail.
  CHECK(passed(cluster, 1, 4) == Names{"nic0>leaf0", "leaf0>nic2"});
  CHECK(cluster.route(DeviceId{1}, DeviceId{4}).latency == Nanoseconds{10'000});

  // From rail 0 of the first two hosts to rail 1 of the last two.
  CHECK(passed(cluster, 1, 14) == Names{"nic0>leaf0", "leaf0>spine0", "spine0>leaf3", "leaf3>nic7"});
  const Route far = cluster.route(DeviceId{1}, DeviceId{14});
  CHECK(far.latency == Nanoseconds{11'000});
  CHECK(far.bandwidth == BytesPerSecond{50e9});

  // Each device has 15 peers: 3 in its host, 2 on its leaf in the other host, 10 beyond.
  REQUIRE(cluster.route_classes().size() == 3);
  CHECK(cluster.route_class_sizes()[0] == 16 * 3);
  CHECK(cluster.route_class_sizes()[1] == 16 * 2);
  CHECK(cluster.route_class_sizes()[2] == 16 * 10);
}

TEST_CASE("with a spine for each card of a leaf, transfers to different cards share no link on the way down") {
  FabricSpec spec = two_rails();
  spec.hosts = 8;
  spec.hosts_per_leaf = 4;
  spec.oversubscription = 1;
  CHECK(spec.spine_count() == 4);
  const Cluster cluster = make_cluster(test::cluster_of(spec));
  std::vector<std::string> down;
  for (const std::size_t host : {4U, 5U, 6U, 7U}) down.push_back(passed(cluster, 0, 4 * host)[2]);
  CHECK(down == Names{"spine0>leaf2", "spine1>leaf2", "spine2>leaf2", "spine3>leaf2"});
}

namespace {

/// Racks of two hosts with one card each, two racks to a pod, two pods. A pod has one spine for each card of a rack,
/// and each spine has one core for the two racks of the pod.
FabricSpec two_pods() {
  FabricSpec spec = two_rails();
  spec.hosts = 8;
  spec.devices_per_host = 2;
  spec.nics_per_host = 1;
  spec.leaf = FabricSpec::Leaf::rack;
  spec.oversubscription = 1;
  spec.hosts_per_pod = 4;
  spec.core_oversubscription = 2;
  spec.core_latency = Nanoseconds{700};
  return spec;
}

}  // namespace

TEST_CASE("between pods a transfer passes leaf, spine, core, spine and leaf, which its destination chooses") {
  FabricSpec spec = two_pods();
  CHECK(spec.leaf_count() == 4);
  CHECK(spec.pod_count() == 2);
  CHECK(spec.spine_count() == 4);  // 2 cards on a leaf x 2 pods
  CHECK(spec.core_count() == 2);   // 2 spines of a pod x (2 leaves of a pod / 2)
  const Cluster cluster = make_cluster(test::cluster_of(spec));
  // 16 ports, 8 cards, 4 leaves x 2 spines of their pod, 4 spines x 1 core; two directions each.
  CHECK(cluster.channel_count() == 2 * (16 + 8 + 8 + 4));

  // Hosts 0 and 3 are in one pod. Host 3 is the second on leaf 1.
  CHECK(passed(cluster, 0, 6) == Names{"nic0>leaf0", "leaf0>spine1", "spine1>leaf1", "leaf1>nic3"});
  // Host 7 is the second on leaf 3, which is the second leaf of pod 1 with spines 2 and 3. Core 1 serves the second
  // spine of each pod.
  CHECK(passed(cluster, 1, 14) ==
        Names{"nic0>leaf0", "leaf0>spine1", "spine1>core1", "core1>spine3", "spine3>leaf3", "leaf3>nic7"});
  CHECK(passed(cluster, 14, 1) ==
        Names{"nic7>leaf3", "leaf3>spine2", "spine2>core0", "core0>spine0", "spine0>leaf0", "leaf0>nic0"});
  const Route far = cluster.route(DeviceId{1}, DeviceId{14});
  CHECK(far.latency == Nanoseconds{2 * (5'000 + 500 + 700)});
  CHECK(far.bandwidth == BytesPerSecond{50e9});

  // Each device has 15 peers: 1 in its host, 2 on its leaf, 4 in its pod, 8 in the other pod.
  REQUIRE(cluster.route_classes().size() == 4);
  CHECK(std::ranges::equal(cluster.route_class_sizes(), std::vector<std::size_t>{16, 32, 64, 128}));

  // One core for each leaf: spine 1 has cores 2 and 3, of which the second leads to the second leaf.
  spec.core_oversubscription = 1;
  CHECK(passed(make_cluster(test::cluster_of(spec)), 1, 14)[2] == "spine1>core3");
  // A single pod for all hosts has no cores.
  spec.hosts_per_pod = 9;
  CHECK(spec.core_count() == 0);
  CHECK(passed(make_cluster(test::cluster_of(spec)), 1, 14) ==
        Names{"nic0>leaf0", "leaf0>spine1", "spine1>leaf3", "leaf3>nic7"});
}

TEST_CASE("with a spine for each card and a core for each leaf, no shift of hosts by any number shares a link") {
  FabricSpec spec = two_pods();
  spec.hosts = 12;
  spec.hosts_per_pod = 4;
  spec.core_oversubscription = 1;
  for (const FabricSpec::Leaf leaf : {FabricSpec::Leaf::rack, FabricSpec::Leaf::rail})
    for (std::size_t shift = 1; shift < spec.hosts; ++shift) {
      CAPTURE(shift);
      spec.leaf = leaf;
      spec.nics_per_host = spec.devices_per_host = 2;
      const Cluster cluster = make_cluster(test::cluster_of(spec));
      std::vector<ChannelId> all;
      for (std::size_t device = 0; device < 24; ++device) {
        const Route route = cluster.route(DeviceId{device}, DeviceId{(device + 2 * shift) % 24});
        all.insert(all.end(), route.channels.begin(), route.channels.end());
      }
      std::ranges::sort(all);
      CHECK(std::ranges::adjacent_find(all) == all.end());
    }
}

TEST_CASE("routes of random fabrics lead from end to end, and an all-to-all loads the links of a level alike") {
  for (std::uint64_t seed = 0; seed < test::rounds(300U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(41, seed);
    FabricSpec spec = two_pods();
    // Whole pods: each level divides evenly, except the spines and cores.
    const std::size_t leaves = 1 + random.below(3), pods = 1 + random.below(4);
    spec.hosts_per_leaf = 1 + random.below(3);
    spec.hosts_per_pod = leaves * spec.hosts_per_leaf;
    spec.hosts = pods * *spec.hosts_per_pod;
    spec.nics_per_host = 1 + random.below(3);
    spec.devices_per_host = spec.nics_per_host * (1 + random.below(2));
    spec.leaf = random.chance(0.5) ? FabricSpec::Leaf::rack : FabricSpec::Leaf::rail;
    spec.oversubscription = 1 + 0.5 * static_cast<double>(random.below(4));
    spec.core_oversubscription = 1 + 0.5 * static_cast<double>(random.below(5));
    const Cluster cluster = make_cluster(test::cluster_of(spec));
    std::vector<std::size_t> load(cluster.channel_count(), 0);
    std::vector<std::size_t> pairs(cluster.route_classes().size(), 0);
    for (const DeviceId from : cluster.devices())
      for (const DeviceId to : cluster.devices()) {
        if (from == to) continue;
        const Route there = cluster.route(from, to), back = cluster.route(to, from);
        REQUIRE(there.latency == back.latency);
        REQUIRE(there.channels.size() == back.channels.size());
        ++pairs[cluster.route_class(from, to)];
        std::vector<std::string> at;
        for (const ChannelId channel : there.channels) {
          ++load[channel.index()];
          if (!at.empty()) REQUIRE(at.back() == cluster.channel(channel).from);
          at.push_back(cluster.channel(channel).to);
        }
        const bool shared = spec.nics_per_host < spec.devices_per_host && at.front().starts_with("leaf");
        REQUIRE(at.back() ==
                (shared ? "nic" + std::to_string(to.index() / spec.devices_per_card()) : cluster.device(to).name));
      }
    CHECK(std::ranges::equal(pairs, cluster.route_class_sizes()));
    // A spine that serves k of the m cards on each leaf, in a pod of L leaves, carries k L cards over its C cores. So a
    // core carries at least k L / C cards, each with all transfers to its devices from other pods.
    const std::size_t of_pod = spec.device_count() / pods, from_others = (spec.device_count() - of_pod);
    const std::size_t a_card = spec.devices_per_card(), spines = spec.spine_count() / pods;
    for (const ChannelId id : cluster.channels()) {
      const Channel& channel = cluster.channel(id);
      if (!channel.from.starts_with("core") || !channel.to.starts_with("spine")) continue;
      const std::size_t cores = spec.core_count() / spines, spine = std::stoul(channel.to.substr(5)) % spines;
      const bool rail = spec.leaf == FabricSpec::Leaf::rail;
      const std::size_t cards = spec.hosts_per_leaf * (rail ? 1 : spec.nics_per_host);
      const std::size_t all_leaves = leaves * (rail ? spec.nics_per_host : 1);
      std::size_t own = 0;
      for (std::size_t card = spine; card < cards; card += spines) own += all_leaves;
      const std::size_t least = own / cores * from_others * a_card;
      CHECK(load[id.index()] >= least);
      CHECK(load[id.index()] <= least + (own % cores == 0 ? 0 : from_others * a_card));
    }
  }
}

TEST_CASE("a fabric is the same cluster as all of its links, switches and routes written out") {
  for (const FabricSpec& fabric : test::small_fabrics()) {
    CAPTURE(fabric.hosts);
    CAPTURE(fabric.devices_per_host);
    CAPTURE(fabric.nics_per_host);
    const ClusterSpec spec = test::cluster_of(fabric);
    const Cluster computed = make_cluster(spec), stored = make_cluster(test::written_out(spec));
    REQUIRE(computed.channel_count() == stored.channel_count());
    for (const ChannelId id : computed.channels()) CHECK(computed.channel(id) == stored.channel(id));
    CHECK(std::ranges::equal(computed.route_classes(), stored.route_classes()));
    CHECK(std::ranges::equal(computed.route_class_sizes(), stored.route_class_sizes()));
    for (const DeviceId from : computed.devices())
      for (const DeviceId to : computed.devices()) {
        if (from == to) continue;
        const Route a = computed.route(from, to), b = stored.route(from, to);
        CHECK(a.latency == b.latency);
        CHECK(a.bandwidth == b.bandwidth);
        CHECK(a.channels == b.channels);
        CHECK(computed.route_class(from, to) == stored.route_class(from, to));
        if (fabric.nics_per_host == fabric.devices_per_host) CHECK(a.links == b.links);
      }
  }
}

TEST_CASE("where each card has its own way up, the best paths of a written-out fabric need no given routes") {
  FabricSpec fabric = two_rails();
  fabric.nics_per_host = 4;
  fabric.oversubscription = 2;
  const ClusterSpec spec = test::cluster_of(fabric);
  REQUIRE(fabric.spine_count() == 1);  // with more spines, the path finder would send all ties over the first
  ClusterSpec links_alone = test::written_out(spec);
  links_alone.routes.clear();
  const Cluster computed = make_cluster(spec), found = make_cluster(links_alone);
  for (const DeviceId from : computed.devices())
    for (const DeviceId to : computed.devices())
      if (from != to) CHECK(computed.route(from, to).channels == found.route(from, to).channels);
}

TEST_CASE("a device with two network cards sends half over each, at twice the bandwidth") {
  FabricSpec spec = two_rails();
  spec.hosts = 2;
  spec.devices_per_host = 2;
  spec.nics_per_host = 4;
  spec.oversubscription = 1;
  const Cluster rail = make_cluster(test::cluster_of(spec));
  CHECK(spec.leaf_count() == 4);
  CHECK(passed(rail, 0, 2) == Names{"nic0>leaf0", "leaf0>nic4", "nic1>leaf1", "leaf1>nic5"});
  // Second device of host 1: its cards are on leaves 2 and 3, where each is the second of two.
  CHECK(passed(rail, 0, 3) == Names{"nic0>leaf0", "leaf0>spine1", "spine1>leaf2", "leaf2>nic6",  //
                                    "nic1>leaf1", "leaf1>spine1", "spine1>leaf3", "leaf3>nic7"});
  CHECK(rail.route(DeviceId{0}, DeviceId{3}).bandwidth == BytesPerSecond{100e9});
  CHECK(rail.route(DeviceId{0}, DeviceId{3}).latency == Nanoseconds{11'000});

  // All four cards of a host are on one leaf; oversubscription 2 gives two spines. Cards 2 and 3 of the other host use
  // spines 0 and 1.
  spec.leaf = FabricSpec::Leaf::rack;
  spec.hosts_per_leaf = 1;
  spec.oversubscription = 2;
  const Cluster rack = make_cluster(test::cluster_of(spec));
  CHECK(passed(rack, 0, 3) == Names{"nic0>leaf0", "leaf0>spine0", "spine0>leaf1", "leaf1>nic6",  //
                                    "nic1>leaf0", "leaf0>spine1", "spine1>leaf1", "leaf1>nic7"});
  spec.oversubscription = 4;  // one spine: both cards of a device would share it
  CHECK(codes(test::cluster_of(spec)) == Names{"fabric-size /fabric/oversubscription"});
}

TEST_CASE("in a torus a transfer goes along the first dimension, then the second, the shorter way round") {
  FabricSpec spec = two_rails();
  spec.hosts = 1;
  spec.devices_per_host = 12;
  spec.torus = {4, 3};  // d0 to d3 in the first row
  const Cluster cluster = make_cluster(test::cluster_of(spec));
  CHECK(cluster.channel_count() == 2 * (12 + 12));
  CHECK(passed(cluster, 0, 1) == Names{"d0>d1"});
  CHECK(passed(cluster, 0, 2) == Names{"d0>d1", "d1>d2"});  // a tie of both ways: forwards
  CHECK(passed(cluster, 0, 3) == Names{"d0>d3"});           // wraps around
  CHECK(passed(cluster, 1, 11) == Names{"d1>d2", "d2>d3", "d3>d11"});
  CHECK(passed(cluster, 11, 1) == Names{"d11>d8", "d8>d9", "d9>d1"});
  const Route far = cluster.route(DeviceId{1}, DeviceId{11});
  CHECK(far.latency == Nanoseconds{3 * 2'500});
  CHECK(far.bandwidth == BytesPerSecond{450e9});
  // A dimension of two devices has one link.
  spec.devices_per_host = 2;
  spec.torus = {2};
  CHECK(make_cluster(test::cluster_of(spec)).channel_count() == 2);
}

TEST_CASE("what is wrong with a torus is found") {
  FabricSpec spec = two_rails();
  const auto with = [&](std::vector<std::size_t> torus, std::size_t devices) {
    spec.hosts = 1;
    spec.torus = std::move(torus);
    spec.devices_per_host = devices;
    return codes(test::cluster_of(spec));
  };
  const Names wrong{"fabric-size /fabric/torus"};
  CHECK(with({4, 4}, 16).empty());
  CHECK(with({4, 4}, 12) == wrong);
  CHECK(with({4, 1}, 4) == wrong);
  CHECK(with({2, 2, 2, 2}, 16) == wrong);
  CHECK(with({128}, 128).empty());  // the farthest device is 64 links away
  CHECK(with({130}, 130) == wrong);
  CHECK(with({std::size_t{1} << 40, std::size_t{1} << 40}, 16) == wrong);
}

TEST_CASE("the links of a fabric may be fair, each of its own bandwidth") {
  ClusterSpec spec = test::cluster_of(two_rails());
  spec.fabric->sharing = Sharing::fair;
  const Cluster cluster = make_cluster(spec);
  CHECK(cluster.has_fair_channels());
  CHECK(cluster.channel(ChannelId{0}).bandwidth == BytesPerSecond{450e9});
  CHECK(cluster.channel(ChannelId{2 * 16}).bandwidth == BytesPerSecond{50e9});
  spec.fabric->nic_bandwidth = BytesPerSecond{1e5};
  CHECK(codes(spec) == Names{"fair-range /fabric/nic_bandwidth"});
  spec.fabric->sharing = Sharing::none;
  CHECK(codes(spec) == Names{"fabric /fabric/sharing"});
}

TEST_CASE("what is wrong with a fabric is found") {
  const ClusterSpec good = test::cluster_of(two_rails());
  CHECK(codes(good).empty());
  const auto with = [&](auto change) {
    ClusterSpec spec = good;
    change(spec);
    return codes(spec);
  };
  CHECK(with([](ClusterSpec& s) { s.fabric->hosts = 0; }) == Names{"not-positive /fabric/hosts"});
  CHECK(with([](ClusterSpec& s) { s.fabric->hosts = 3; }) == Names{"fabric-size /fabric/hosts"});
  CHECK(with([](ClusterSpec& s) { s.fabric->hosts = std::size_t{1} << 62; }) == Names{"fabric-size /fabric/hosts"});
  CHECK(with([](ClusterSpec& s) { s.fabric->nics_per_host = 3; }) == Names{"fabric-size /fabric/nics_per_host"});
  CHECK(with([](ClusterSpec& s) { s.fabric->nics_per_host = 0; }) == Names{"not-positive /fabric/nics_per_host"});
  CHECK(with([](ClusterSpec& s) { s.fabric->port_bandwidth = BytesPerSecond{0}; }) ==
        Names{"not-positive /fabric/port_bandwidth"});
  CHECK(with([](ClusterSpec& s) { s.fabric->nic_bandwidth = BytesPerSecond{-1}; }) ==
        Names{"not-positive /fabric/nic_bandwidth"});
  CHECK(with([](ClusterSpec& s) { s.fabric->nic_latency = Nanoseconds{-1}; }) ==
        Names{"negative-time /fabric/nic_latency"});
  CHECK(with([](ClusterSpec& s) { s.fabric->uplink_latency = kLongestTime; }) ==
        Names{"too-large /fabric/uplink_latency"});
  CHECK(with([](ClusterSpec& s) { s.fabric->hosts_per_leaf = 0; }) == Names{"not-positive /fabric/hosts_per_leaf"});
  CHECK(with([](ClusterSpec& s) { s.fabric->oversubscription = 0.5; }) ==
        Names{"fabric-size /fabric/oversubscription"});
  CHECK(with([](ClusterSpec& s) { s.switches = {"hub"}; }) == Names{"fabric /fabric"});
}

TEST_CASE("what is wrong with pods is found") {
  const auto with = [&](auto change) {
    ClusterSpec spec = test::cluster_of(two_pods());
    change(*spec.fabric);
    return codes(spec);
  };
  CHECK(with([](FabricSpec&) {}).empty());
  CHECK(with([](FabricSpec& f) { f.hosts_per_pod = 0; }) == Names{"not-positive /fabric/hosts_per_pod"});
  CHECK(with([](FabricSpec& f) { f.hosts_per_pod = 3; }) == Names{"fabric-size /fabric/hosts_per_pod"});
  CHECK(with([](FabricSpec& f) { f.hosts_per_pod = 6; }).empty());  // the last pod has two hosts
  CHECK(with([](FabricSpec& f) { f.hosts_per_pod = ~std::size_t{0}; }).empty());
  CHECK(with([](FabricSpec& f) { f.core_oversubscription = 0.5; }) ==
        Names{"fabric-size /fabric/core_oversubscription"});
  CHECK(with([](FabricSpec& f) { f.core_latency = Nanoseconds{-1}; }) == Names{"negative-time /fabric/core_latency"});
  CHECK(with([](FabricSpec& f) { f.hosts_per_pod.reset(); }) ==
        Names{"fabric-size /fabric/core_oversubscription", "fabric-size /fabric/core_latency"});
  // Cards of one device send at the same time, so each needs its own cores, and a route has at most 64 links.
  const auto cards = [](std::size_t count) {
    return [count](FabricSpec& f) {
      f.leaf = FabricSpec::Leaf::rail;
      f.nics_per_host = 2 * count;
    };
  };
  CHECK(with(cards(10)).empty());
  CHECK(with(cards(11)) == Names{"fabric-size /fabric/nics_per_host"});
  CHECK(with([&](FabricSpec& f) {
          cards(3)(f);
          f.core_oversubscription = 6;  // 12 leaves of a pod / 6: 2 cores a spine
        }) == Names{"fabric-size /fabric/core_oversubscription"});
}
