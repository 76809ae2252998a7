#include "trainyard/cluster/fabric.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/written_out.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;

namespace {

/// 4 hosts of 4 devices and 2 cards, a leaf for each rail of two hosts, half as many spines as cards on a leaf: one.
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
  try {
    make_cluster(spec);
  } catch (const InputError& error) {
    for (const Finding& finding : error.findings()) found.push_back(finding.code + " " + finding.pointer);
  }
  return found;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("two devices of a fabric reach each other over their host, their leaf, or a spine") {
  const FabricSpec spec = two_rails();
  CHECK(spec.leaf_count() == 4);   // 2 groups of hosts x 2 rails
  CHECK(spec.spine_count() == 1);  // 2 cards on a leaf / 2
  const Cluster cluster = make_cluster(test::cluster_of(spec));
  // 16 ports, 8 cards, 4 x 1 uplinks, each in two directions.
  CHECK(cluster.channel_count() == 2 * (16 + 8 + 4));

  CHECK(passed(cluster, 0, 3) == Names{"d0>host0", "host0>d3"});
  const Route near = cluster.route(DeviceId{0}, DeviceId{3});
  CHECK(near.latency == Nanoseconds{5'000});
  CHECK(near.bandwidth == BytesPerSecond{450e9});

  // d1 and d0 share card 0; d4 and d5 are those of the next host on the same rail.
  CHECK(passed(cluster, 1, 4) == Names{"nic0>leaf0", "leaf0>nic2"});
  CHECK(cluster.route(DeviceId{1}, DeviceId{4}).latency == Nanoseconds{10'000});

  // Rail 0 of the first two hosts to rail 1 of the last two.
  CHECK(passed(cluster, 1, 14) == Names{"nic0>leaf0", "leaf0>spine0", "spine0>leaf3", "leaf3>nic7"});
  const Route far = cluster.route(DeviceId{1}, DeviceId{14});
  CHECK(far.latency == Nanoseconds{11'000});
  CHECK(far.bandwidth == BytesPerSecond{50e9});

  // Of each device's 15 others: 3 in its host, 2 on its leaf in the other host, 10 beyond.
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
  REQUIRE(fabric.spine_count() == 1);  // with more, equally good paths would all take the first
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
  // The second device of host 1: its cards are on leaves 2 and 3, second of two there.
  CHECK(passed(rail, 0, 3) == Names{"nic0>leaf0", "leaf0>spine1", "spine1>leaf2", "leaf2>nic6",  //
                                    "nic1>leaf1", "leaf1>spine1", "spine1>leaf3", "leaf3>nic7"});
  CHECK(rail.route(DeviceId{0}, DeviceId{3}).bandwidth == BytesPerSecond{100e9});
  CHECK(rail.route(DeviceId{0}, DeviceId{3}).latency == Nanoseconds{11'000});

  // All cards of a host on one leaf, which has 4, over 2: cards 2 and 3 of the other take spines 0 and 1.
  spec.leaf = FabricSpec::Leaf::rack;
  spec.hosts_per_leaf = 1;
  spec.oversubscription = 2;
  const Cluster rack = make_cluster(test::cluster_of(spec));
  CHECK(passed(rack, 0, 3) == Names{"nic0>leaf0", "leaf0>spine0", "spine0>leaf1", "leaf1>nic6",  //
                                    "nic1>leaf0", "leaf0>spine1", "spine1>leaf1", "leaf1>nic7"});
  spec.oversubscription = 4;  // one spine for both: they would meet
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
  CHECK(passed(cluster, 0, 2) == Names{"d0>d1", "d1>d2"});  // as far either way: forwards
  CHECK(passed(cluster, 0, 3) == Names{"d0>d3"});           // round the end
  CHECK(passed(cluster, 1, 11) == Names{"d1>d2", "d2>d3", "d3>d11"});
  CHECK(passed(cluster, 11, 1) == Names{"d11>d8", "d8>d9", "d9>d1"});
  const Route far = cluster.route(DeviceId{1}, DeviceId{11});
  CHECK(far.latency == Nanoseconds{3 * 2'500});
  CHECK(far.bandwidth == BytesPerSecond{450e9});
  // Two devices in a dimension have one link.
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
  CHECK(with({128}, 128).empty());  // 64 links to the farthest
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
