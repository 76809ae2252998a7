#include "trainyard/cluster/presets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;

namespace {

std::vector<std::string> channels_between(const Cluster& cluster, const std::string& from, const std::string& to) {
  std::vector<std::string> names;
  for (const ChannelId channel : cluster.route(*cluster.find_device(from), *cluster.find_device(to)).channels)
    names.push_back(cluster.channel(channel).name);
  return names;
}

std::string error_code(std::string_view name) {
  const Finding finding = test::finding_of([&] { preset_cluster(name); });
  return finding.code + ": " + finding.help;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("every built-in cluster makes a cluster of its name, with rates in whole bytes a second and a source") {
  for (const ClusterPreset& preset : cluster_presets()) {
    CAPTURE(preset.name);
    CHECK_FALSE(preset.summary.empty());
    CHECK_FALSE(preset.source.empty());
    const ClusterSpec spec = preset_cluster(preset.name);
    CHECK(spec.name == preset.name);
    for (const Link& link : spec.links) CHECK(link.bandwidth.value == std::floor(link.bandwidth.value));
    CHECK(make_cluster(spec).device_count() == spec.devices.size());
  }
}

TEST_CASE("built-in clusters have as many devices as their machines have") {
  const auto devices = [](std::string_view name) { return preset_cluster(name).devices.size(); };
  CHECK(devices("p2.8xlarge") == 8);
  CHECK(devices("dgx1-v100") == 8);
  CHECK(devices("2xV100-nvlink-pcie") == 2);
  CHECK(devices("cpu-2x2080ti") == 3);
  CHECK(devices("cpu-v100") == 2);
  CHECK(devices("cpu-h100") == 2);
  CHECK(devices("dgx-a100") == 8);
  CHECK(devices("hgx-h100") == 8);
  CHECK(devices("hgx-h200") == 8);
  CHECK(devices("2xdgx-a100") == 16);
  CHECK(devices("2xhgx-h100") == 16);
  CHECK(devices("2xhgx-h200") == 16);
  CHECK(devices("cpu") == 4);
}

TEST_CASE("NxKIND makes a connected cluster of any kind or alias and any N from 1 to 64") {
  for (const DeviceKind& kind : device_kinds())
    for (const std::size_t count : {1u, 2u, 3u, 8u, 9u, 17u, 64u}) {
      const std::string name = std::to_string(count) + "x" + kind.name;
      CAPTURE(name);
      const Cluster cluster = make_cluster(preset_cluster(name));
      CHECK(cluster.name() == name);
      CHECK(cluster.device_count() == count);
      CHECK(cluster.device(DeviceId{count - 1}).kind == kind.name);
    }
  CHECK(preset_cluster("4xV100").devices.front().kind == "V100-SXM2-16GB");
  CHECK(preset_cluster("4xh100").devices.front().kind == "H100-SXM5-80GB");
}

TEST_CASE("cards for PCIe slots reach each other through the host, not over NVLink") {
  for (const char* name : {"2xA100-PCIe", "2xV100-PCIe", "2xP100-PCIe", "2xH100-PCIe"})
    for (const Link& link : preset_cluster(name).links) CHECK(link.name.find("nvlink") == std::string::npos);
  CHECK(preset_cluster("2x8xA100-PCIe").fabric->port_bandwidth == preset_cluster("2x8xA6000").fabric->port_bandwidth);
}

TEST_CASE("the DGX-1 has its cube mesh: six NVLinks at every GPU") {
  const ClusterSpec spec = preset_cluster("dgx1-v100");
  for (const Device& device : spec.devices) {
    double rate = 0;
    for (const Link& link : spec.links)
      if (link.name.starts_with("nvlink") && (link.from == device.name || link.to == device.name))
        rate += link.bandwidth.value;
    CHECK(rate == doctest::Approx(145.2e9));  // 6 x 24.2 GB/s
  }
}

TEST_CASE("on the DGX-1, GPUs with an NVLink use it, and the others go over PCIe and the CPU sockets") {
  const Cluster cluster = make_cluster(preset_cluster("dgx1-v100"));
  CHECK(channels_between(cluster, "gpu0", "gpu1") == Names{"nvlink-gpu0-gpu1"});
  CHECK(cluster.route(DeviceId{0}, DeviceId{1}).bandwidth == BytesPerSecond{24.2e9});
  CHECK(cluster.route(DeviceId{0}, DeviceId{3}).bandwidth == BytesPerSecond{48.4e9});
  // PCIe: 4 + 0.5 + 0.5 + 0.5 + 4 = 9.5 us. Two NVLinks by way of GPU 3 or 4 would take 5 + 5 us.
  CHECK(channels_between(cluster, "gpu0", "gpu7") ==
        Names{"pcie-gpu0-pcie0", "pcie-pcie0-socket0", "qpi-socket0-socket1", "pcie-pcie3-socket1", "pcie-gpu7-pcie3"});
  CHECK(cluster.route(DeviceId{0}, DeviceId{7}).latency == Nanoseconds{9'500});
  CHECK(cluster.route(DeviceId{0}, DeviceId{7}).bandwidth == BytesPerSecond{11e9});
}

TEST_CASE("behind an NVSwitch all routes out of a GPU share its port") {
  const Cluster cluster = make_cluster(preset_cluster("hgx-h200"));
  const Route to_1 = cluster.route(DeviceId{0}, DeviceId{1}), to_7 = cluster.route(DeviceId{0}, DeviceId{7});
  REQUIRE(to_1.channels.size() == 2);
  CHECK(to_1.channels[0] == to_7.channels[0]);
  CHECK(to_1.channels[1] != to_7.channels[1]);
  CHECK(cluster.channel(to_1.channels[0]).name == "nvlink-gpu0-nvswitch");
  CHECK(to_1.bandwidth == BytesPerSecond{393e9});
  CHECK(to_1.latency == Nanoseconds{5'000});  // 2.5 us at each port
}

TEST_CASE("an A100's port is as fast as its memory's version, and a card copies to the host faster than from it") {
  CHECK(preset_cluster("8xA100-40GB").links.front().bandwidth == BytesPerSecond{264e9});
  CHECK(preset_cluster("8xA100-80GB").links.front().bandwidth == BytesPerSecond{272e9});
  const Cluster cards = make_cluster(preset_cluster("cpu-2x2080ti"));
  CHECK(cards.route(DeviceId{0}, DeviceId{1}).bandwidth == BytesPerSecond{12.3e9});
  CHECK(cards.route(DeviceId{1}, DeviceId{0}).bandwidth == BytesPerSecond{13.2e9});
  CHECK(cards.route(DeviceId{1}, DeviceId{2}).bandwidth == BytesPerSecond{12.3e9});
  const Cluster v100 = make_cluster(preset_cluster("cpu-v100"));
  CHECK(v100.route(DeviceId{0}, DeviceId{1}).bandwidth == BytesPerSecond{11e9});
  CHECK(v100.route(DeviceId{1}, DeviceId{0}).bandwidth == BytesPerSecond{12.4e9});
}

TEST_CASE("two hosts are joined by their network cards only") {
  const Cluster cluster = make_cluster(preset_cluster("2xdgx-a100"));
  CHECK(channels_between(cluster, "gpu0", "gpu7") == Names{"nvlink-gpu0-nvswitch-0", "nvlink-gpu7-nvswitch-0"});
  CHECK(channels_between(cluster, "gpu7", "gpu8") == Names{"nic-gpu7-fabric", "nic-gpu8-fabric"});
  CHECK(cluster.route(DeviceId{7}, DeviceId{8}).bandwidth == BytesPerSecond{25e9});  // 200 Gbit/s
}

TEST_CASE("K80 boards share one bus to the host, the two halves of a board do not need it") {
  const Cluster cluster = make_cluster(preset_cluster("p2.8xlarge"));
  const auto uses_bus = [&](const std::string& from, const std::string& to) {
    const auto names = channels_between(cluster, from, to);
    return std::ranges::find(names, "pcie-root") != names.end();
  };
  CHECK_FALSE(uses_bus("gpu0", "gpu1"));
  CHECK(uses_bus("gpu0", "gpu2"));
  CHECK(uses_bus("gpu7", "gpu5"));
}

TEST_CASE("a SuperPOD is scalable units whose rails have a leaf each, with as many spines as cards on a leaf") {
  struct Expected {
    const char* name;
    std::size_t devices, leaves, spines;
  };
  for (const Expected& each : {Expected{"superpod-a100", 20 * 8, 8, 20},
                               {"superpod-h100", 32 * 8, 8, 32},
                               {"4xsuperpod-h100", 4 * 32 * 8, 32, 32},
                               {"2xsuperpod-b200", 512, 16, 32},
                               {"superpod-b300", 512, 16, 64},
                               {"2xsuperpod-gb200", 2 * 576, 144, 8}}) {
    CAPTURE(each.name);
    const ClusterSpec spec = preset_cluster(each.name);
    CHECK(spec.name == each.name);
    CHECK(spec.devices.size() == each.devices);
    CHECK(spec.fabric->leaf_count() == each.leaves);
    CHECK(spec.fabric->spine_count() == each.spines);
    CHECK(make_cluster(spec).device_count() == each.devices);
  }
  // NVIDIA's 64-port switches for 16, 32 and 64 units: 128, 256 and 512 leaves, and as many spines. Each spine has 32
  // links down and 32 up, to 64, 128 and 256 cores.
  for (const std::size_t units : {16U, 32U, 64U}) {
    const FabricSpec fabric = *preset_cluster(std::to_string(units) + "xsuperpod-h100").fabric;
    CHECK(fabric.leaf_count() == 8 * units);
    CHECK(fabric.spine_count() == 8 * units);
    CHECK(fabric.core_count() * fabric.pod_count() == 4 * units * 64);  // uplinks of all spines
  }
  CHECK(preset_cluster("8xsuperpod-h100").fabric->core_count() == 0);
  // 24,576 H100, 16 on a leaf. A pod's leaves have 3,072 links to its spines, and 448 links go on to the cores: 6.9 to
  // 1.
  const FabricSpec meta = *preset_cluster("8xllama3-pod").fabric;
  CHECK(meta.device_count() == 24'576);
  CHECK(meta.leaf_count() == 8 * 192);
  CHECK(meta.spine_count() == 8 * 16);
  CHECK(meta.core_count() == 448);
  CHECK(make_cluster(preset_cluster("8xllama3-pod")).route(DeviceId{0}, DeviceId{24'575}).channels.size() == 6);
  CHECK(preset_cluster("llama3-pod").fabric->core_count() == 0);
  // 400 Gbit/s a card, and two cards for each B300.
  const Cluster b300 = make_cluster(preset_cluster("superpod-b300"));
  CHECK(b300.route(DeviceId{0}, DeviceId{8}).bandwidth == BytesPerSecond{100e9});
  CHECK(b300.route(DeviceId{0}, DeviceId{8}).channels.size() == 4);
  // One NVSwitch domain connects a rack of 72 GPUs, and also the 576 of NVL576.
  CHECK(make_cluster(preset_cluster("superpod-gb200")).route(DeviceId{0}, DeviceId{71}).channels.size() == 2);
  CHECK(make_cluster(preset_cluster("1x576xGB200")).route(DeviceId{0}, DeviceId{575}).channels.size() == 2);
  CHECK(error_code("4xsuperpod-h10").starts_with("unknown-cluster: did you mean '4xsuperpod-h100'?"));
  for (const char* size : {"0xsuperpod-h100", "513xsuperpod-h100", "99999999999999999999xsuperpod-gb200"})
    CHECK(error_code(size).starts_with("cluster-size"));
  CHECK(preset_cluster("512xsuperpod-h100").devices.size() == 131'072);
}

TEST_CASE("HxGxKIND is hosts on a fabric") {
  const ClusterSpec spec = preset_cluster("128x8xH100");
  CHECK(spec.devices.size() == 1'024);
  CHECK(spec.devices.back().name == "gpu1023");
  CHECK(spec.devices.back().kind == "H100-SXM5-80GB");
  REQUIRE(spec.fabric);
  CHECK(spec.fabric->leaf_count() == 32);   // 128 / 32 hosts x 8 rails
  CHECK(spec.fabric->spine_count() == 32);  // one card of each of 32 hosts on a leaf
  const Cluster cluster = make_cluster(spec);
  // 1,024 ports, 1,024 cards and 32 x 32 uplinks, each with two directions.
  CHECK(cluster.channel_count() == 2 * 3 * 1'024);
  CHECK(channels_between(cluster, "gpu0", "gpu7") == Names{"gpu0-host0", "gpu7-host0"});
  CHECK(channels_between(cluster, "gpu0", "gpu248") == Names{"gpu0-leaf0", "gpu248-leaf0"});  // host 31, rail 0
  // Host 127 is the last on its leaf, so transfers to it take the last spine.
  CHECK(channels_between(cluster, "gpu0", "gpu1023") ==
        Names{"gpu0-leaf0", "leaf0-spine31", "leaf31-spine31", "gpu1023-leaf31"});
  for (const DeviceKind& kind : device_kinds())
    for (const char* form : {"1x1x", "1x8x", "3x5x", "40x4x"}) {
      const ClusterSpec each = preset_cluster(form + kind.name);
      CHECK(make_cluster(each).device_count() == each.devices.size());
    }
}

TEST_CASE("an unknown cluster is named with the nearest that there is") {
  CHECK(error_code("dgx1-v10").starts_with("unknown-cluster: did you mean 'dgx1-v100'?"));
  CHECK(error_code("16xH10").starts_with("unknown-cluster: did you mean '16xH100'?"));
  CHECK(error_code("no such thing at all").starts_with("unknown-cluster: use NxKIND"));
  for (const std::string name : {"", "x", "4", "4x", "xV100", "-1xV100", "4 xV100"})
    CHECK(error_code(name).starts_with("unknown-cluster"));
  CHECK(error_code("16x8xH10").starts_with("unknown-cluster: did you mean '16x8xH100'?"));
  for (const std::string name : {"0xV100", "65xV100", "99999999999999999999999xV100", "0x8xV100", "8x0xV100",
                                 "131073x1xV100", "99999999999999999999999x8xV100", "8589934592x8589934592xV100"})
    CHECK(error_code(name).starts_with("cluster-size"));
}
