#include "trainyard/cluster/cluster.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;

namespace {

Device device(std::string name) { return {.name = std::move(name), .kind = "", .device_class = "gpu"}; }

Link link(std::string name, std::string from, std::string to) {
  return {.name = std::move(name),
          .from = std::move(from),
          .to = std::move(to),
          .bandwidth = BytesPerSecond{1e9},
          .latency = Nanoseconds{3}};
}

/// Two devices on one link.
ClusterSpec pair() { return {.name = "pair", .devices = {device("a"), device("b")}, .links = {link("ab", "a", "b")}}; }

/// The first finding of make_cluster after `change` to the pair.
Finding wrong_after(const std::function<void(ClusterSpec&)>& change) {
  ClusterSpec spec = pair();
  change(spec);
  return test::finding_of([&] { make_cluster(spec); });
}

void check_wrong(const std::function<void(ClusterSpec&)>& change, const std::string& code, const std::string& pointer,
                 const std::string& words) {
  const Finding finding = wrong_after(change);
  INFO(finding.message, " | ", finding.help);
  CHECK(finding.code == code);
  CHECK(finding.pointer == pointer);
  CHECK((finding.message + " | " + finding.help).find(words) != std::string::npos);
}

std::vector<std::string> channels(const Cluster& cluster, std::size_t from, std::size_t to) {
  std::vector<std::string> names;
  for (const ChannelId id : cluster.route(DeviceId{from}, DeviceId{to}).channels) {
    const Channel& channel = cluster.channel(id);
    names.push_back(channel.name + (channel.from.empty() ? "" : ":" + channel.from + ">" + channel.to));
  }
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a full-duplex link is two channels, a half-duplex one is one, an unshared one is none") {
  ClusterSpec spec = pair();
  Cluster cluster = make_cluster(spec);
  CHECK(channels(cluster, 0, 1) == Names{"ab:a>b"});
  CHECK(channels(cluster, 1, 0) == Names{"ab:b>a"});
  CHECK(cluster.route(DeviceId{0}, DeviceId{1}).latency == Nanoseconds{3});
  CHECK(cluster.route(DeviceId{0}, DeviceId{1}).bandwidth == BytesPerSecond{1e9});
  spec.links[0].duplex = Duplex::half;
  cluster = make_cluster(spec);
  CHECK(channels(cluster, 0, 1) == Names{"ab"});
  CHECK(channels(cluster, 1, 0) == Names{"ab"});
  spec.links[0].sharing = Sharing::none;
  CHECK(make_cluster(spec).channel_count() == 0);
}

TEST_CASE("a route over a switch holds both links, adds their latencies and takes the smaller bandwidth") {
  ClusterSpec spec{.name = "star", .devices = {device("a"), device("b")}, .switches = {"s"}};
  spec.links = {link("as", "a", "s"), link("bs", "b", "s")};
  spec.links[1].bandwidth = BytesPerSecond{5e8};
  const Cluster cluster = make_cluster(spec);
  const Route route = cluster.route(DeviceId{0}, DeviceId{1});
  CHECK(channels(cluster, 0, 1) == Names{"as:a>s", "bs:s>b"});
  CHECK(route.latency == Nanoseconds{3 + 3});
  CHECK(route.bandwidth == BytesPerSecond{5e8});
  CHECK(route.links.size() == 2);
}

TEST_CASE("links of one bus share it, and a route over two of them holds it once") {
  ClusterSpec spec{.name = "bus", .devices = {device("a"), device("b"), device("c")}, .switches = {"s"}};
  spec.links = {link("as", "a", "s"), link("bs", "b", "s"), link("cs", "c", "s")};
  spec.links[0].bus = spec.links[1].bus = "pcie0";
  const Cluster cluster = make_cluster(spec);
  CHECK(channels(cluster, 0, 1) == Names{"as:a>s", "pcie0", "bs:s>b"});
  CHECK(channels(cluster, 1, 0) == Names{"bs:b>s", "pcie0", "as:s>a"});
  CHECK(channels(cluster, 2, 0) == Names{"cs:c>s", "as:s>a", "pcie0"});
}

TEST_CASE("a fair link is as many channels as a serial one, and a bus of fair links is fair with their bandwidth") {
  ClusterSpec spec{.name = "fair", .devices = {device("a"), device("b"), device("c")}, .switches = {"s"}};
  spec.links = {link("as", "a", "s"), link("bs", "b", "s"), link("cs", "c", "s")};
  CHECK_FALSE(make_cluster(spec).has_fair_channels());
  spec.links[0].sharing = spec.links[1].sharing = Sharing::fair;
  spec.links[0].bus = spec.links[1].bus = "pcie0";
  spec.links[1].duplex = Duplex::half;
  const Cluster cluster = make_cluster(spec);
  CHECK(cluster.has_fair_channels());
  CHECK(channels(cluster, 0, 1) == Names{"as:a>s", "pcie0", "bs"});
  CHECK(channels(cluster, 2, 0) == Names{"cs:c>s", "as:s>a", "pcie0"});
  std::vector<std::pair<std::string, double>> fair;  // fair channels and the bandwidth that their users share
  for (const ChannelId id : cluster.channels())
    if (const Channel& channel = cluster.channel(id); channel.fair)
      fair.emplace_back(channel.name, channel.bandwidth.value);
  CHECK(fair == std::vector<std::pair<std::string, double>>{{"as", 1e9}, {"as", 1e9}, {"bs", 1e9}, {"pcie0", 1e9}});
}

TEST_CASE("what makes no sense of a fair link is said") {
  const auto fair = [](ClusterSpec& s) -> Link& {
    s.links.push_back(link("two", "a", "b"));
    for (Link& each : s.links) {
      each.sharing = Sharing::fair;
      each.bus = "bus";
    }
    return s.links[1];
  };
  check_wrong([&](ClusterSpec& s) { fair(s).gap = Nanoseconds{1}; }, "fair-gap", "/link/1/gap", "remove the gap");
  check_wrong([&](ClusterSpec& s) { fair(s).sharing = Sharing::serial; }, "fair-bus", "/link/1/sharing",
              "link 'ab' is fair, but link 'two' is not fair");
  check_wrong([&](ClusterSpec& s) { fair(s), s.links[0].sharing = Sharing::none; }, "fair-bus", "/link/1/sharing",
              "link 'ab' is not fair, but link 'two' is fair");
  check_wrong([&](ClusterSpec& s) { fair(s).bandwidth = BytesPerSecond{2e9}; }, "fair-bus", "/link/1/bandwidth",
              "the same bandwidth");
  check_wrong(
      [](ClusterSpec& s) {
        s.links[0].sharing = Sharing::fair;
        s.egresses = {{.device = "b", .bandwidth = BytesPerSecond{900}}};  // 1e9 / 900 > 2^20
      },
      "fair-range", "/egress/0/bandwidth", "over 1048576 times slower");
}

TEST_CASE("an egress reaches every other device, and competes with links by latency") {
  ClusterSpec spec = pair();
  spec.devices.push_back(device("c"));
  spec.egresses = {{.device = "a", .bandwidth = BytesPerSecond{2e9}, .latency = Nanoseconds{5}, .broadcast = true},
                   {.device = "b", .bandwidth = BytesPerSecond{2e9}, .latency = Nanoseconds{1}},
                   {.device = "c", .bandwidth = BytesPerSecond{2e9}, .latency = Nanoseconds{1}}};
  const Cluster cluster = make_cluster(spec);
  CHECK(channels(cluster, 0, 1) == Names{"ab:a>b"});                 // latency 3 (link) < 5 (egress)
  CHECK(channels(cluster, 0, 2) == Names{"ab:a>b", "egress:b:b>"});  // 3 + 1 < 5
  CHECK(channels(cluster, 1, 0) == Names{"egress:b:b>"});            // 1 (egress) < 3 (link)
  CHECK(cluster.channel(ChannelId{2}).broadcast);
}

TEST_CASE("a given route is taken instead of the best, in its own direction only") {
  ClusterSpec spec{.name = "triangle", .devices = {device("a"), device("b"), device("c")}};
  spec.links = {link("ab", "a", "b"), link("ac", "a", "c"), link("bc", "b", "c")};
  spec.routes = {{.from = "b", .to = "a", .links = {"bc", "ac"}}};
  const Cluster cluster = make_cluster(spec);
  CHECK(channels(cluster, 1, 0) == Names{"bc:b>c", "ac:c>a"});
  CHECK(channels(cluster, 0, 1) == Names{"ab:a>b"});
}

TEST_CASE("a link without a name is called after its ends") {
  ClusterSpec spec{.name = "pair", .devices = {device("a"), device("b")}, .links = {link("", "a", "b")}};
  CHECK(channels(make_cluster(spec), 0, 1) == Names{"a-b:a>b"});
}

TEST_CASE("each mistake in a cluster has its code, its place and its words") {
  check_wrong([](ClusterSpec& s) { s = {.name = "none", .devices = {}}; }, "empty-cluster", "",
              "at least one [[device]]");
  check_wrong([](ClusterSpec& s) { s.devices[1].name = ""; }, "missing-name", "/device/1", "no name");
  check_wrong([](ClusterSpec& s) { s.devices.push_back(device("a")); }, "duplicate-name", "/device/2/name", "'a'");
  check_wrong([](ClusterSpec& s) { s.switches = {"a"}; }, "duplicate-name", "/switch/0/name", "'a'");
  check_wrong([](ClusterSpec& s) { s.links.push_back(link("ab", "a", "b")); }, "duplicate-name", "/link/1/name",
              "two links");
  check_wrong([](ClusterSpec& s) { s.devices[0].name = "gpu0", s.links[0].from = "gpu_0"; }, "unknown-device",
              "/link/0/from", "did you mean 'gpu0'?");
  check_wrong([](ClusterSpec& s) { s.links[0].to = "a"; }, "self-link", "/link/0/to", "to itself");
  check_wrong([](ClusterSpec& s) { s.links[0].bandwidth = BytesPerSecond{0}; }, "not-positive", "/link/0/bandwidth",
              "more than 0");
  check_wrong([](ClusterSpec& s) { s.links[0].bandwidth = BytesPerSecond{std::numeric_limits<double>::infinity()}; },
              "not-positive", "/link/0/bandwidth", "'ab'");
  check_wrong([](ClusterSpec& s) { s.links[0].latency = Nanoseconds{-1}; }, "negative-time", "/link/0/latency",
              "0 or more");
  check_wrong([](ClusterSpec& s) { s.links[0].gap = kLongestTime; }, "too-large", "/link/0/gap", "73 minutes");
  check_wrong([](ClusterSpec& s) { s.devices[0].memory = Bytes{-1}; }, "negative-bytes", "/device/0/memory", "'a'");
  check_wrong([](ClusterSpec& s) { s.devices[0].peak = FlopsPerSecond{-1}; }, "not-positive", "/device/0/peak", "'a'");
  check_wrong([](ClusterSpec& s) { s.links.clear(); }, "missing-route", "/device/0",
              "no path of links leads from device 'a' to device 'b'");
  check_wrong([](ClusterSpec& s) { s.egresses = {{.device = "z", .bandwidth = BytesPerSecond{1}}}; }, "unknown-device",
              "/egress/0/device", "'z'");
  check_wrong(
      [](ClusterSpec& s) {
        s.switches = {"s"};
        s.egresses = {{.device = "s", .bandwidth = BytesPerSecond{1}}};
      },
      "unknown-device", "/egress/0/device", "which is a switch");
  check_wrong(
      [](ClusterSpec& s) {
        s.egresses = {{.device = "a", .bandwidth = BytesPerSecond{1}}, {.device = "a", .bandwidth = BytesPerSecond{1}}};
      },
      "duplicate-name", "/egress/1/device", "two egresses");
  check_wrong(
      [](ClusterSpec& s) {
        s.routes = {{"a", "b", {"ba"}}};
      },
      "unknown-link", "/route/0/links/0", "did you mean 'ab'?");
  check_wrong([](ClusterSpec& s) { s.routes = {{"a", "b", {}}}; }, "broken-route", "/route/0/links", "ends at 'a'");
  check_wrong(
      [](ClusterSpec& s) {
        s.routes = {{"a", "b", {"ab", "ab"}}};
      },
      "broken-route", "/route/0/links", "ends at 'a'");
  check_wrong([](ClusterSpec& s) { s.routes = {{"a", "a", {}}}; }, "broken-route", "/route/0/to", "to itself");
  check_wrong(
      [](ClusterSpec& s) {
        s.routes = {{"a", "b", {"ab"}}, {"a", "b", {"ab"}}};
      },
      "duplicate-name", "/route/1", "two routes");
}

TEST_CASE("one device alone needs no links") {
  const Cluster cluster = make_cluster({.name = "one", .devices = {device("a")}});
  CHECK(cluster.device_count() == 1);
  CHECK(cluster.find_device("a") == DeviceId{0});
  CHECK_FALSE(cluster.find_device("b").has_value());
}

TEST_CASE("routes of the same latency and bandwidth are of one class, numbered as they appear") {
  ClusterSpec spec = pair();
  spec.devices.push_back(device("c"));
  spec.links.push_back(link("bc", "b", "c"));
  const Cluster cluster = make_cluster(spec);
  // Pairs a-b and b-c cross one link, a-c both.
  REQUIRE(cluster.route_classes().size() == 2);
  const auto of = [&](std::size_t from, std::size_t to) { return cluster.route_class(DeviceId{from}, DeviceId{to}); };
  CHECK(of(0, 1) == 0);
  CHECK(of(0, 2) == 1);
  CHECK(of(1, 2) == 0);
  CHECK(of(2, 0) == 1);
  const Route both = cluster.route(DeviceId{0}, DeviceId{2});
  CHECK(cluster.route_classes()[1] == RouteClass{both.latency, both.bandwidth});
}

TEST_CASE("with nothing but an egress on each of many devices, routes are those egresses") {
  ClusterSpec spec{.name = "wide", .devices = {}};
  constexpr std::size_t kDevices = 2000;
  for (std::size_t i = 0; i < kDevices; ++i) spec.devices.push_back(device("d" + std::to_string(i)));
  for (std::size_t i = kDevices; i-- > 0;)  // listed from the last device; every other one has the higher latency
    spec.egresses.push_back(
        {"d" + std::to_string(i), BytesPerSecond{1e9}, Nanoseconds{i % 2 == 0 ? 1 : 5}, Nanoseconds{0}, false});
  const Cluster cluster = make_cluster(spec);
  CHECK(cluster.route_classes().size() == 2);
  const Route route = cluster.route(DeviceId{7}, DeviceId{1999});
  CHECK(route.latency == Nanoseconds{5});
  REQUIRE(route.channels.size() == 1);
  CHECK(cluster.channel(route.channels[0]).name == "egress:d7");
  CHECK(route.links[0] == LinkId{kDevices - 1 - 7});
  CHECK(cluster.route_class(DeviceId{8}, DeviceId{0}) == 0);
  CHECK(cluster.route_class(DeviceId{7}, DeviceId{0}) == 1);
}
