#include "trainyard/cluster/part.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "support/refusal.hpp"

using namespace trainyard;

namespace {

const Cluster& line() {
  static const Cluster cluster = make_cluster(
      {.name = "line",
       .devices = numbered_devices({.name = "", .device_class = "cpu"}, 3),
       .links = {
           {.name = "a", .from = "cpu0", .to = "cpu1", .bandwidth = BytesPerSecond{4e9}, .latency = Nanoseconds{5}},
           {.name = "b", .from = "cpu1", .to = "cpu2", .bandwidth = BytesPerSecond{1e9}, .latency = Nanoseconds{7}}}});
  return cluster;
}

Cluster hosts(std::size_t count, std::size_t devices, std::size_t per_leaf, std::optional<std::size_t> per_pod = {}) {
  return make_cluster({.name = "hosts",
                       .devices = numbered_devices({.name = "", .device_class = "gpu"}, count * devices),
                       .fabric = FabricSpec{.hosts = count,
                                            .devices_per_host = devices,
                                            .port_bandwidth = BytesPerSecond{100e9},
                                            .nics_per_host = 1,
                                            .nic_bandwidth = BytesPerSecond{10e9},
                                            .hosts_per_leaf = per_leaf,
                                            .uplink_latency = Nanoseconds{3},
                                            .hosts_per_pod = per_pod,
                                            .core_latency = Nanoseconds{per_pod ? 5 : 0}}});
}

std::string part_error(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  return test::code_of([&] { part_of(cluster, devices); });
}

}  // namespace

TEST_CASE("what passes over a device that is no part of it passes over a switch") {
  // From cpu2 to cpu0: latency 5 + 7 ns, at the 1 GB/s of the slower link.
  const Cluster part = part_of(line(), std::vector{DeviceId{2}, DeviceId{0}});
  CHECK(part.device_count() == 2);
  CHECK(part.device(DeviceId{0}).name == "cpu2");
  const Route route = part.route(DeviceId{0}, DeviceId{1});
  CHECK(route.latency == Nanoseconds{12});
  CHECK(route.bandwidth.value == 1e9);
  CHECK(route.links.size() == 2);
}

TEST_CASE("given and measured routes, and egresses, of devices that are no part of it are gone") {
  ClusterSpec spec = line().spec();
  spec.routes = {{"cpu0", "cpu2", {"a", "b"}}, {"cpu0", "cpu1", {"a"}}};
  spec.measured = {{"cpu0", "cpu1", Nanoseconds{1}, BytesPerSecond{2e9}},
                   {"cpu1", "cpu2", Nanoseconds{1}, BytesPerSecond{3e9}}};
  spec.egresses = {{.device = "cpu2", .bandwidth = BytesPerSecond{1e6}}};
  const Cluster part = part_of(make_cluster(spec), std::vector{DeviceId{0}, DeviceId{1}});
  CHECK(part.spec().routes.size() == 1);
  CHECK(part.spec().egresses.empty());
  CHECK(part.route(DeviceId{0}, DeviceId{1}).bandwidth.value == 2e9);
}

TEST_CASE("a part of a fabric is some of its hosts, or some devices of one") {
  const Cluster whole = hosts(3, 2, 3);
  const Cluster two = part_of(whole, std::vector{DeviceId{2}, DeviceId{3}, DeviceId{4}, DeviceId{5}});
  CHECK(two.spec().fabric->hosts == 2);
  CHECK(two.route(DeviceId{0}, DeviceId{1}).bandwidth == whole.route(DeviceId{2}, DeviceId{3}).bandwidth);
  CHECK(two.route(DeviceId{0}, DeviceId{2}).bandwidth == whole.route(DeviceId{2}, DeviceId{4}).bandwidth);
  CHECK(part_of(whole, std::vector{DeviceId{1}}).device_count() == 1);
  CHECK(part_error(whole, {DeviceId{1}, DeviceId{2}}) == "part");
  CHECK(part_error(whole, {DeviceId{0}, DeviceId{2}}) == "part");
  CHECK(part_error(whole, {}) == "part");
}

TEST_CASE("hosts of a part of a fabric are as far from each other as in the whole, or the part is refused") {
  // Leaves of hosts 0 and 1, 2 and 3, 4 and 5, 6 and 7; pods of 0 to 3 and 4 to 7.
  const Cluster whole = hosts(8, 1, 2, 4);
  std::vector<std::string> refused;
  for (std::size_t first = 0; first < 8; ++first)
    for (std::size_t last = first; last < 8; ++last) {
      std::vector<DeviceId> devices;
      for (std::size_t host = first; host <= last; ++host) devices.push_back(DeviceId{host});
      if (part_error(whole, devices) == "part") {
        refused.push_back(std::to_string(first) + "-" + std::to_string(last));
        continue;
      }
      const Cluster part = part_of(whole, devices);
      for (const DeviceId from : part.devices())
        for (const DeviceId to : part.devices())
          if (from != to)
            CHECK(part.route(from, to).latency == whole.route(devices[from.index()], devices[to.index()]).latency);
    }
  CHECK(refused == std::vector<std::string>{"1-2", "1-3", "1-4", "1-5", "1-6", "1-7", "2-4", "2-5", "2-6", "2-7", "3-4",
                                            "3-5", "3-6", "3-7", "5-6", "5-7"});
}
