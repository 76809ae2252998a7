#include "trainyard/cluster/presets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard {
namespace {

/// Bandwidth and latency of one kind of link, per direction. The latency is the link's share of a copy's fixed cost: a
/// copy between two GPUs pays it at both ports, so switches between them add little.
struct LinkKind {
  BytesPerSecond bandwidth;
  Nanoseconds latency;
};

// Bandwidths are medians over servers of the same type, per direction, of nvbandwidth's copies (writes):
// SpareCores/sc-inspector-data 804d3c7, CC BY-SA 4.0, tests v0.5 to v0.8. Links that were not measured are scaled from
// the data sheet by the ratio of NVLink 2, 24.2 of 25 GB/s: .968.
constexpr double kNvLink1 = 19.4e9;  // P100: .968 x 20, scaled
constexpr double kNvLink2 = 24.2e9;  // V100: 44 pairs of p3.16xlarge, p3dn.24xlarge, p3.8xlarge, gn6v; two links 48.4
// A copy between neighbours takes 5 us besides its transfer time: cudaMemcpyPeer of a few bytes takes 5 to 10.
constexpr Nanoseconds kNvLinkLatency{5'000};
// Each of the two switch ports accounts for half of that latency.
constexpr Nanoseconds kNvSwitchLatency{2'500};
constexpr LinkKind kNvSwitchV100{BytesPerSecond{145e9}, kNvSwitchLatency};     // DGX-2: .968 x 150, scaled
constexpr LinkKind kNvSwitchA100{BytesPerSecond{264e9}, kNvSwitchLatency};     // a2-highgpu-8g
constexpr LinkKind kNvSwitchA100_80{BytesPerSecond{272e9}, kNvSwitchLatency};  // a2-ultragpu-8g
constexpr LinkKind kNvSwitchH100{BytesPerSecond{389e9}, kNvSwitchLatency};     // a3-highgpu-8g, megagpu, edgegpu
constexpr LinkKind kNvSwitchH200{BytesPerSecond{393e9}, kNvSwitchLatency};     // a3-ultragpu-8g
constexpr LinkKind kNvSwitchB200{BytesPerSecond{774.7e9}, kNvSwitchLatency};   // UpCloud, two GPUs
// PCIe: the rate of the slower direction, because a route between GPUs uses both. Rates in GB/s, to a GPU and from it:
// p3 11.0 and 12.4; the 56 single GPUs and servers on PCIe 3.0 x16 (or 4.0 x8) 12.3 and 13.2; 33 on 4.0 x16 26.7 and
// 26.4; 12 on 5.0 x16 55.6 and 55.8.
constexpr Nanoseconds kPciePortLatency{4'000};
constexpr BytesPerSecond kPcie3ToGpu{12.3e9}, kPcie3FromGpu{13.2e9}, kPcie3FromV100{12.4e9}, kPcie5FromGpu{55.8e9};
constexpr LinkKind kPcie3PortV100{BytesPerSecond{11e9}, kPciePortLatency};
constexpr LinkKind kPcie3Port{kPcie3ToGpu, kPciePortLatency};
constexpr LinkKind kPcie4Port{BytesPerSecond{26.4e9}, kPciePortLatency};
constexpr LinkKind kPcie5Port{BytesPerSecond{55.6e9}, kPciePortLatency};
// The uplink of a PCIe switch is one such link, which its GPUs share: concurrent pairs reach 11.0 to 11.4 in total on
// p3.
constexpr LinkKind kPcie3TrunkV100{BytesPerSecond{11e9}, Nanoseconds{500}};
constexpr LinkKind kPcie3Trunk{kPcie3ToGpu, Nanoseconds{500}};
// QPI at 9.6 GT/s x 2 bytes = 19.2 GB/s per direction, by Intel's specification.
constexpr LinkKind kSocketLink{BytesPerSecond{19'200'000'000.0}, Nanoseconds{500}};
// Network cards: bandwidth = line rate / 8; latency of card, cable and half a switch (1 to 2 us) plus posting to the
// card.
constexpr LinkKind kNic100{BytesPerSecond{12'500'000'000.0}, Nanoseconds{5'000}};
constexpr LinkKind kNic200{BytesPerSecond{25e9}, Nanoseconds{5'000}};
constexpr LinkKind kNic400{BytesPerSecond{50e9}, Nanoseconds{5'000}};
constexpr LinkKind kTwoNics400{BytesPerSecond{100e9}, Nanoseconds{5'000}};
// A copy between two cores, at half the rate at which one core copies memory; hand-over by spinning takes 0.1 us.
constexpr LinkKind kCoreLink{BytesPerSecond{10e9}, Nanoseconds{500}};

// One more cable and switch: an estimate.
constexpr Nanoseconds kUplinkLatency{500}, kCoreLatency{500};
// NVIDIA DGX SuperPOD reference architecture (H100): a scalable unit has 32 hosts and a leaf switch for each rail.
constexpr std::size_t kHostsPerLeaf = 32;

constexpr std::size_t kGpusPerHost = 8;
constexpr std::size_t kMostDevices = 64;

/// Builds a specification from parts.
class Assembly {
 public:
  explicit Assembly(std::string name) : spec_{.name = std::move(name), .devices = {}} {}

  void add_devices(const DeviceKind& kind, std::size_t count, std::string_view stem) {
    for (std::size_t i = 0; i < count; ++i) spec_.devices.push_back(make_device(kind, fmt::format("{}{}", stem, i)));
  }
  void add_device(const DeviceKind& kind, std::string name) {
    spec_.devices.push_back(make_device(kind, std::move(name)));
  }
  const std::string& add_switch(std::string name) {
    spec_.switches.push_back(std::move(name));
    return spec_.switches.back();
  }
  void join(std::string_view stem, const std::string& from, const std::string& to, LinkKind kind,
            std::string bus = "") {
    spec_.links.push_back({.name = fmt::format("{}-{}-{}", stem, from, to),
                           .from = from,
                           .to = to,
                           .bandwidth = kind.bandwidth,
                           .latency = kind.latency,
                           .bus = std::move(bus)});
  }
  /// A measured rate for one direction, if it differs from that of the links.
  void measured(const std::string& from, const std::string& to, LinkKind kind) {
    spec_.measured.push_back({.from = from, .to = to, .latency = kind.latency, .bandwidth = kind.bandwidth});
  }
  std::size_t device_count() const { return spec_.devices.size(); }
  const std::string& device(std::size_t index) const { return spec_.devices[index].name; }
  ClusterSpec take() && { return std::move(spec_); }

 private:
  ClusterSpec spec_;
};

std::size_t hosts_for(std::size_t devices) { return (devices + kGpusPerHost - 1) / kGpusPerHost; }

std::string host_name(std::size_t hosts, std::size_t host, std::string_view part) {
  return hosts == 1 ? std::string{part} : fmt::format("{}-{}", part, host);
}

/// Each GPU has one port to the NVSwitch of its host and, if there are several hosts, one network card.
void join_by_nvswitch(Assembly& parts, LinkKind port, LinkKind nic) {
  const std::size_t count = parts.device_count(), hosts = hosts_for(count);
  if (count < 2) return;
  for (std::size_t host = 0; host < hosts; ++host) {
    const std::string hub = parts.add_switch(host_name(hosts, host, "nvswitch"));
    for (std::size_t i = host * kGpusPerHost; i < std::min(count, (host + 1) * kGpusPerHost); ++i)
      parts.join("nvlink", parts.device(i), hub, port);
  }
  if (hosts == 1) return;
  const std::string fabric = parts.add_switch("fabric");
  for (std::size_t i = 0; i < count; ++i) parts.join("nic", parts.device(i), fabric, nic);
}

/// One bond of the cube mesh: `links` NVLinks between GPUs `a` and `b` of a host.
struct Bond {
  std::size_t a, b;
  int links;
};

// The pairs of a DGX-1, with the links that `nvidia-smi topo -m` shows with V100: six per GPU. With P100 each pair has
// one: four per GPU.
constexpr std::array<Bond, 16> kCubeMesh{{{0, 1, 1},
                                          {0, 2, 1},
                                          {0, 3, 2},
                                          {0, 4, 2},
                                          {1, 2, 2},
                                          {1, 3, 1},
                                          {1, 5, 2},
                                          {2, 3, 2},
                                          {2, 6, 1},
                                          {3, 7, 1},
                                          {4, 5, 1},
                                          {4, 6, 1},
                                          {4, 7, 2},
                                          {5, 6, 2},
                                          {5, 7, 1},
                                          {6, 7, 2}}};

/// PCIe trees of the hosts: a switch for every `per_switch` GPUs, a root (CPU socket) for every two switches, links
/// between the sockets, and one network card on the first socket of each host.
void join_by_pcie(Assembly& parts, std::size_t per_switch) {
  const std::size_t count = parts.device_count(), hosts = hosts_for(count);
  std::vector<std::string> first_sockets;
  for (std::size_t host = 0; host < hosts; ++host) {
    const std::size_t first = host * kGpusPerHost, last = std::min(count, first + kGpusPerHost);
    std::vector<std::string> sockets;
    for (std::size_t i = first; i < last; i += per_switch) {
      const std::size_t at = (i - first) / per_switch;
      if (at % 2 == 0) sockets.push_back(parts.add_switch(host_name(hosts, host, fmt::format("socket{}", at / 2))));
      const std::string hub = parts.add_switch(host_name(hosts, host, fmt::format("pcie{}", at)));
      for (std::size_t j = i; j < std::min(last, i + per_switch); ++j)
        parts.join("pcie", parts.device(j), hub, kPcie3PortV100);
      parts.join("pcie", hub, sockets.back(), kPcie3TrunkV100);
    }
    for (std::size_t s = 1; s < sockets.size(); ++s) parts.join("qpi", sockets[s - 1], sockets[s], kSocketLink);
    first_sockets.push_back(sockets.front());
  }
  if (hosts == 1) return;
  const std::string fabric = parts.add_switch("fabric");
  for (const std::string& socket : first_sockets) parts.join("nic", socket, fabric, kNic100);
}

/// The cube mesh, cut to the available GPUs, on top of the PCIe trees.
void join_by_cube_mesh(Assembly& parts, double link_rate, bool bonds) {
  const std::size_t count = parts.device_count();
  if (count < 2) return;
  for (std::size_t host = 0; host < hosts_for(count); ++host) {
    const std::size_t first = host * kGpusPerHost, last = std::min(count, first + kGpusPerHost);
    for (const Bond& bond : kCubeMesh) {
      if (first + bond.b >= last) continue;
      // A pair has no other peers to spend its links on: both ends bond two.
      const int links = !bonds ? 1 : count == 2 ? 2 : bond.links;
      parts.join("nvlink", parts.device(first + bond.a), parts.device(first + bond.b),
                 {BytesPerSecond{link_rate * links}, kNvLinkLatency});
    }
  }
  if (count > 2) join_by_pcie(parts, 2);
}

/// Boards of two GPUs behind one switch each. The links from the boards to the root share one bus, which carries one
/// transfer at a time.
void join_by_boards(Assembly& parts) {
  const std::size_t count = parts.device_count(), hosts = hosts_for(count);
  if (count < 2) return;
  std::vector<std::string> roots;
  for (std::size_t host = 0; host < hosts; ++host) {
    const std::size_t first = host * kGpusPerHost, last = std::min(count, first + kGpusPerHost);
    roots.push_back(parts.add_switch(host_name(hosts, host, "host")));
    for (std::size_t i = first; i < last; i += 2) {
      const std::string board = parts.add_switch(host_name(hosts, host, fmt::format("board{}", (i - first) / 2)));
      for (std::size_t j = i; j < std::min(last, i + 2); ++j) parts.join("pcie", parts.device(j), board, kPcie3Port);
      parts.join("pcie", board, roots.back(), kPcie3Trunk, host_name(hosts, host, "pcie-root"));
    }
  }
  if (hosts == 1) return;
  const std::string fabric = parts.add_switch("fabric");
  for (const std::string& root : roots) parts.join("nic", root, fabric, kNic100);
}

/// Each device has one port to its host.
void join_by_host(Assembly& parts, std::string_view stem, std::string_view hub, LinkKind port) {
  const std::size_t count = parts.device_count(), hosts = hosts_for(count);
  if (count < 2) return;
  std::vector<std::string> roots;
  for (std::size_t host = 0; host < hosts; ++host) {
    roots.push_back(parts.add_switch(host_name(hosts, host, hub)));
    for (std::size_t i = host * kGpusPerHost; i < std::min(count, (host + 1) * kGpusPerHost); ++i)
      parts.join(stem, parts.device(i), roots.back(), port);
  }
  if (hosts == 1) return;
  const std::string fabric = parts.add_switch("fabric");
  for (const std::string& root : roots) parts.join("nic", root, fabric, kNic100);
}

void join_one_hub(Assembly& parts, std::string_view stem, const std::string& hub, LinkKind port) {
  if (parts.device_count() < 2) return;
  parts.add_switch(hub);
  for (std::size_t i = 0; i < parts.device_count(); ++i) parts.join(stem, parts.device(i), hub, port);
}

/// Whether the kind belongs to the family and is not a card with PCIe only.
bool has_stem(const DeviceKind& kind, std::string_view stem) {
  return kind.name.starts_with(stem) && kind.name.find("PCIe") == std::string::npos;
}

/// Port of a GPU to the NVSwitch of its host.
LinkKind nvswitch_port(const DeviceKind& kind) {
  for (const std::string_view stem : {"B200", "GB200", "B300"})
    if (kind.name.starts_with(stem)) return kNvSwitchB200;  // NVLink 5
  if (kind.name.starts_with("H200")) return kNvSwitchH200;
  if (kind.name.starts_with("H100")) return kNvSwitchH100;
  return kind.memory > Bytes{std::int64_t{40} << 30} ? kNvSwitchA100_80 : kNvSwitchA100;
}

/// PCIe port of a GPU without NVLink, by PCIe generation.
LinkKind pcie_port(const DeviceKind& kind) {
  const auto is = [&](std::string_view stem) { return kind.name.starts_with(stem); };
  if (is("H100")) return kPcie5Port;
  for (const std::string_view stem : {"A10", "A40", "A6000", "RTX3090", "RTX4090", "L4", "MI"})
    if (is(stem)) return kPcie4Port;
  return is("V100") || is("P100") ? kPcie3PortV100 : kPcie3Port;
}

ClusterSpec many_of(std::string name, const DeviceKind& kind, std::size_t count) {
  Assembly parts{std::move(name)};
  parts.add_devices(kind, count, kind.device_class);
  const auto is = [&](std::string_view stem) { return has_stem(kind, stem); };
  if (is("H100") || is("H200") || is("B200"))
    join_by_nvswitch(parts, nvswitch_port(kind), kNic400);
  else if (is("B300"))
    join_by_nvswitch(parts, nvswitch_port(kind), kTwoNics400);
  else if (is("GB200"))
    join_one_hub(parts, "nvlink", "nvswitch", nvswitch_port(kind));
  else if (is("A100"))
    join_by_nvswitch(parts, nvswitch_port(kind), kNic200);
  else if (is("V100"))
    join_by_cube_mesh(parts, kNvLink2, true);
  else if (is("P100"))
    join_by_cube_mesh(parts, kNvLink1, false);
  else if (is("K80"))
    join_by_boards(parts);
  else if (is("cpu-core"))
    join_one_hub(parts, "copy", "memory", kCoreLink);
  else if (is("cpu"))
    join_one_hub(parts, "upi", "interconnect", kSocketLink);
  else
    join_by_host(parts, "pcie", "host", pcie_port(kind));
  return std::move(parts).take();
}

/// Hosts on a fabric, with a network card for every `devices_per_nic` devices (or `cards` per device), or one per host.
ClusterSpec hosts_of(std::string name, const DeviceKind& kind, std::size_t hosts, std::size_t devices) {
  struct Parts {
    LinkKind port, nic;
    std::size_t devices_per_nic = 0, cards = 1;
  };
  const auto is = [&](std::string_view stem) { return has_stem(kind, stem); };
  const bool nic400 = is("H100") || is("H200") || is("B200") || is("GB200");
  const Parts parts = nic400           ? Parts{nvswitch_port(kind), kNic400, 1}
                      : is("B300")     ? Parts{nvswitch_port(kind), kNic400, 1, 2}
                      : is("A100")     ? Parts{nvswitch_port(kind), kNic200, 1}
                      : is("V100")     ? Parts{kNvSwitchV100, kNic100, 2}
                      : is("cpu-core") ? Parts{kCoreLink, kNic100}
                      : is("cpu")      ? Parts{kSocketLink, kNic100}
                                       : Parts{pcie_port(kind), kNic100};
  const bool even = parts.devices_per_nic > 0 && devices % parts.devices_per_nic == 0;
  const std::size_t nics = even ? devices / parts.devices_per_nic * parts.cards : 1;
  ClusterSpec spec;
  spec.name = std::move(name);
  spec.devices = numbered_devices(make_device(kind, ""), hosts * devices);
  spec.fabric = FabricSpec{.hosts = hosts,
                           .devices_per_host = devices,
                           .port_bandwidth = parts.port.bandwidth,
                           .port_latency = parts.port.latency,
                           .nics_per_host = nics,
                           .nic_bandwidth = parts.nic.bandwidth,
                           .nic_latency = parts.nic.latency,
                           .leaf = parts.devices_per_nic == 1 ? FabricSpec::Leaf::rail : FabricSpec::Leaf::rack,
                           .hosts_per_leaf = std::min(hosts, kHostsPerLeaf),
                           .uplink_latency = kUplinkLatency};
  return spec;
}

const DeviceKind& kind_of(std::string_view name) { return *find_device_kind(name); }

ClusterSpec pair_on_nvlink_and_pcie() {
  Assembly parts{"2xV100-nvlink-pcie"};
  parts.add_devices(kind_of("V100"), 2, "gpu");
  const std::string hub = parts.add_switch("pcie0");
  parts.join("nvlink", parts.device(0), parts.device(1), {BytesPerSecond{2 * kNvLink2}, kNvLinkLatency});
  for (std::size_t i = 0; i < 2; ++i) parts.join("pcie", parts.device(i), hub, kPcie3PortV100);
  return std::move(parts).take();
}

/// The CPU is the root: copies between the cards pass through its memory.
ClusterSpec host_with_cards(std::string name, std::string_view kind, std::size_t cards, LinkKind port,
                            BytesPerSecond from_gpu) {
  Assembly parts{std::move(name)};
  parts.add_device(kind_of("cpu-socket"), "cpu0");
  parts.add_devices(kind_of(kind), cards, "gpu");
  for (std::size_t i = 1; i <= cards; ++i) {
    parts.join("pcie", parts.device(i), parts.device(0), port);
    parts.measured(parts.device(i), parts.device(0), {from_gpu, port.latency});
  }
  return std::move(parts).take();
}

// Source of the medians, as shown by `trainyard clusters NAME`.
const std::string kMeasured = "nvbandwidth's copies on rented servers (SpareCores/sc-inspector-data, CC BY-SA 4.0): ";
const std::string kPcie3Source = kMeasured +
                                 "PCIe 3.0 x16 at 12.3 GB/s to a GPU and 13.2 from it, median of 56 GPUs; a route "
                                 "between GPUs has the slower rate; latencies are estimates";

std::string nvswitch_source(const char* median) {
  return kMeasured + median +
         "; one port per GPU to a non-blocking NVSwitch; reads are 1 to 5 % slower; 2.5 us per port, so 5 us per copy, "
         "is an estimate";
}
const std::string kNvSwitchA100Source = nvswitch_source(
    "264 GB/s per GPU and direction, median of a2-highgpu-8g (data sheet 300; 205 each if both directions are used at "
    "once, which is not modelled)");
const std::string kNvSwitchH100Source = nvswitch_source(
    "389 GB/s per GPU and direction, median of a3-highgpu-8g, a3-megagpu-8g and a3-edgegpu-8g (data sheet 450)");
const std::string kNvSwitchH200Source =
    nvswitch_source("393 GB/s per GPU and direction, median of two a3-ultragpu-8g (data sheet 450)");
const std::string kNvSwitchB200Source =
    nvswitch_source("774.7 GB/s per GPU and direction, two GPUs of UpCloud (data sheet 900)");

/// A scalable unit of a DGX SuperPOD, with one leaf switch per rail; or a pod of racks.
struct PodUnit {
  std::string_view name, kind;
  std::size_t hosts, devices;  // `devices` per host
  const char* what;
  std::string source;
  std::size_t units_without_cores = FabricSpec::kMostDevices;
  std::size_t units_per_pod = 1;  // in clusters with more units than that
  double core_oversubscription = 1;
  std::optional<std::size_t> hosts_per_rack = {};
};

const std::vector<PodUnit>& pod_units() {
  static const std::string spines = "; one spine for each network card on a leaf";
  static const std::string leaves = spines + "; no third level of switches; ";
  // A 64-port switch serves as spine for the 64 leaves of 8 units, or joins the 32 leaves of 4 units to as many cores.
  static const std::string cores =
      spines +
      "; the spines join up to 8 units; larger clusters are pods of 4 units, in which each spine has one core for each "
      "leaf (for 16, 32, 64 units NVIDIA has 128, 256, 512 spines and 64, 128, 256 cores of 64 ports); ";
  static const std::vector<PodUnit> units{
      {"superpod-a100", "A100-SXM4-80GB", 20, 8,
       "20 hosts of 8 A100 80 GB on NVSwitch; for each GPU a 200 Gbit/s network card on its rail's leaf",
       "NVIDIA DGX SuperPOD with DGX A100, RA-09950-001 of November 2020: 20 DGX A100 per scalable unit, eight HDR "
       "InfiniBand rails" +
           leaves + nvswitch_source("272 GB/s per GPU and direction, median of a2-ultragpu-8g")},
      {"superpod-h100", "H100-SXM5-80GB", 32, 8,
       "32 hosts of 8 H100 80 GB on NVSwitch; for each GPU a 400 Gbit/s network card on its rail's leaf",
       "NVIDIA DGX SuperPOD with DGX H100, RA-11333-001: 32 DGX H100 per scalable unit, eight NDR InfiniBand rails, 8 "
       "leaf switches per unit" +
           cores + kNvSwitchH100Source,
       8, 4},
      {"superpod-b200", "B200-SXM-180GB", 32, 8,
       "32 hosts of 8 B200 on NVSwitch; for each GPU a 400 Gbit/s network card on its rail's leaf",
       "NVIDIA DGX SuperPOD with DGX B200: 32 DGX B200 per scalable unit, eight NDR InfiniBand rails, 8 leaf switches "
       "per unit" +
           cores + kNvSwitchB200Source,
       8, 4},
      {"superpod-b300", "B300-SXM-270GB", 64, 8,
       "64 hosts of 8 B300 on NVSwitch; for each GPU two 400 Gbit/s network cards, each on a separate leaf",
       "NVIDIA DGX SuperPOD with DGX B300: 64 DGX B300 per scalable unit, two 400 Gbit/s Ethernet ports per GPU in two "
       "planes, 16 leaf switches per unit" +
           leaves + kNvSwitchB200Source},
      {"superpod-gb200", "GB200-NVL72", 8, 72,
       "8 racks of 72 GB200 on NVSwitch (NVL72); for each GPU a 400 Gbit/s network card",
       "NVIDIA DGX SuperPOD with DGX GB200: 8 racks of 72 GPUs per scalable unit, NDR InfiniBand; a leaf for each GPU "
       "position in a rack" +
           leaves + kNvSwitchB200Source},
      {"llama3-pod", "H100-SXM5-80GB", 384, 8,
       "192 racks of two hosts of 8 H100 80 GB on NVSwitch; for each GPU a 400 Gbit/s network card on its rack's leaf",
       "Meta, The Llama 3 Herd of Models, 2024, 3.3.1: 24,576 H100 on RoCE, 16 in a rack with one switch, 192 racks in "
       "a pod without oversubscription, 8 pods with oversubscription 1:7" +
           spines + ", and one core per spine for every seven racks of a pod; " + kNvSwitchH100Source,
       1, 1, 7, 2},
  };
  return units;
}

ClusterSpec pod_of(std::string name, const PodUnit& unit, std::size_t count) {
  ClusterSpec spec = hosts_of(std::move(name), kind_of(unit.kind), count * unit.hosts, unit.devices);
  FabricSpec& fabric = *spec.fabric;
  fabric.hosts_per_leaf = unit.hosts_per_rack.value_or(unit.hosts);
  if (unit.hosts_per_rack) fabric.leaf = FabricSpec::Leaf::rack;
  if (count <= unit.units_without_cores) return spec;
  fabric.hosts_per_pod = unit.units_per_pod * unit.hosts;
  fabric.core_oversubscription = unit.core_oversubscription;
  fabric.core_latency = kCoreLatency;
  return spec;
}

struct BuiltIn {
  ClusterPreset preset;
  std::function<ClusterSpec()> make;
};

std::vector<BuiltIn> all_presets() {
  const auto systems = [](std::string name, std::string_view kind, std::size_t count) {
    return [name, kind, count] { return many_of(name, kind_of(kind), count); };
  };
  std::vector<BuiltIn> all{
      {{"cpu", "four cores of one generic CPU socket as devices, connected through its memory",
        "generic, not a specific product: 10 GB/s per core, and 0.5 us at each end of a copy"},
       systems("cpu", "cpu-core", 4)},
      {{"p2.8xlarge", "8 K80 (four boards of two) on PCIe 3.0; the boards share one bus to the host",
        "Amazon EC2 P2 instance description; " + kPcie3Source},
       systems("p2.8xlarge", "K80", 8)},
      {{"dgx1-v100", "8 V100 16 GB in a hybrid cube mesh of NVLinks, and on PCIe switches below two CPU sockets",
        "topology by NVIDIA's DGX-1 white paper and `nvidia-smi topo -m`; " + kMeasured +
            "NVLink 2 at 24.2 GB/s per link and direction (data sheet 25), two at 48.4, median of p3.16xlarge, "
            "p3dn.24xlarge, p3.8xlarge and gn6v; PCIe 3.0 x16 of p3.16xlarge at 11.0 to a GPU and 12.4 from it, which "
            "the two GPUs of a switch share (a route between GPUs has the slower rate); QPI at 19.2 GB/s by data "
            "sheet; latencies are estimates: 5 us per copy over NVLink, 8 us and more over PCIe"},
       systems("dgx1-v100", "V100-SXM2-16GB", 8)},
      {{"2xV100-nvlink-pcie", "2 V100 16 GB joined by two bonded NVLinks, and also by PCIe",
        kMeasured + "two NVLink 2 at 48.4 GB/s per direction (data sheet 50) and PCIe 3.0 x16 at 11.0, medians of p3 "
                    "servers; latencies are estimates"},
       pair_on_nvlink_and_pcie},
      {{"cpu-2x2080ti", "one CPU socket with two RTX 2080 Ti on PCIe 3.0; the CPU runs ops too",
        "GeForce cards reach each other through the host; " + kPcie3Source},
       [] { return host_with_cards("cpu-2x2080ti", "RTX2080Ti", 2, kPcie3Port, kPcie3FromGpu); }},
      {{"cpu-v100", "one CPU socket with a V100 16 GB on PCIe 3.0; the CPU runs ops too",
        kMeasured + "PCIe 3.0 x16 of p3.16xlarge at 11.0 GB/s to a GPU and 12.4 from it; the latency is an estimate"},
       [] { return host_with_cards("cpu-v100", "V100", 1, kPcie3PortV100, kPcie3FromV100); }},
      {{"cpu-h100", "one CPU socket with an H100 80 GB on PCIe 5.0; the CPU runs ops too",
        kMeasured +
            "PCIe 5.0 x16 at 55.6 GB/s to a GPU and 55.8 from it, median of 12 GPUs; the latency is an estimate"},
       [] { return host_with_cards("cpu-h100", "H100", 1, kPcie5Port, kPcie5FromGpu); }},
      {{"dgx-a100", "8 A100 40 GB on NVSwitch", kNvSwitchA100Source}, systems("dgx-a100", "A100-SXM4-40GB", 8)},
      {{"hgx-h100", "8 H100 80 GB on NVSwitch", kNvSwitchH100Source}, systems("hgx-h100", "H100-SXM5-80GB", 8)},
      {{"hgx-h200", "8 H200 141 GB on NVSwitch", kNvSwitchH200Source}, systems("hgx-h200", "H200-SXM5-141GB", 8)},
      {{"2xdgx-a100", "two hosts of 8 A100 40 GB on NVSwitch; a 200 Gbit/s network card for each GPU",
        "NVIDIA DGX A100 data sheet: eight ConnectX-6 at 200 Gbit/s for compute; " + kNvSwitchA100Source},
       systems("2xdgx-a100", "A100-SXM4-40GB", 16)},
      {{"2xhgx-h100", "two hosts of 8 H100 80 GB on NVSwitch; a 400 Gbit/s network card for each GPU",
        "NVIDIA DGX H100 data sheet: eight ConnectX-7 at 400 Gbit/s; " + kNvSwitchH100Source},
       systems("2xhgx-h100", "H100-SXM5-80GB", 16)},
      {{"2xhgx-h200", "two hosts of 8 H200 141 GB on NVSwitch; a 400 Gbit/s network card for each GPU",
        "NVIDIA DGX H200 data sheet: eight ConnectX-7 at 400 Gbit/s; " + kNvSwitchH200Source},
       systems("2xhgx-h200", "H200-SXM5-141GB", 16)},
  };
  for (const PodUnit& unit : pod_units())
    all.push_back({{std::string{unit.name}, unit.what, unit.source, true},
                   [&unit] { return pod_of(std::string{unit.name}, unit, 1); }});
  return all;
}

const std::vector<BuiltIn>& built_in() {
  static const std::vector<BuiltIn> presets = all_presets();
  return presets;
}

/// Removes "12x" from "12xV100" and returns 12; nothing for any other form. A count too large to represent is
/// saturated.
std::optional<std::size_t> take_count(std::string_view& text) {
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc::invalid_argument) return std::nullopt;
  if (error != std::errc{}) count = std::numeric_limits<std::size_t>::max();
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (digits >= text.size() || text[digits] != 'x') return std::nullopt;
  text.remove_prefix(digits + 1);
  return count;
}

/// The parts of "12xV100" and "128x8xH100".
struct Pattern {
  std::size_t count;
  std::optional<std::size_t> devices;  // per host, if `count` is the number of hosts
  std::string_view kind;
};
std::optional<Pattern> parse_pattern(std::string_view text) {
  const auto count = take_count(text);
  if (!count) return std::nullopt;
  const auto devices = take_count(text);
  return Pattern{*count, devices, text};
}

[[noreturn]] void fail_unknown(std::string_view name) {
  const auto nearest = nearest_name(name, cluster_names_like(name));
  refuse("unknown-cluster", fmt::format("no built-in cluster is named '{}'", name),
         (nearest ? fmt::format("did you mean '{}'? ", *nearest) : "") +
             "use NxKIND (for example 4xV100), HxGxKIND (for example 16x8xH100), a cluster that `trainyard clusters` "
             "lists, or a cluster file");
}

void check_size(std::string_view name, std::size_t hosts, std::size_t devices, std::size_t hosts_of_one = 1) {
  constexpr std::size_t kMost = FabricSpec::kMostDevices;
  if (hosts >= 1 && devices >= 1 && hosts <= kMost && devices <= kMost && hosts * hosts_of_one * devices <= kMost)
    return;
  refuse("cluster-size", fmt::format("'{}' asks for a number of hosts or devices outside 1 to {}", name, kMost),
         "ask for a part of the machine");
}

}  // namespace

std::span<const ClusterPreset> cluster_presets() {
  static const std::vector<ClusterPreset> presets = [] {
    std::vector<ClusterPreset> list;
    for (const BuiltIn& known : built_in()) list.push_back(known.preset);
    return list;
  }();
  return presets;
}

std::vector<std::string> cluster_names_like(std::string_view name) {
  const auto pattern = parse_pattern(name);
  std::string count = pattern ? fmt::format("{}x", pattern->count) : "4x";
  if (pattern && pattern->devices) count += fmt::format("{}x", *pattern->devices);
  std::vector<std::string> names;
  for (const BuiltIn& known : built_in()) names.push_back(known.preset.name);
  for (const PodUnit& unit : pod_units()) names.push_back(count + std::string{unit.name});
  for (const DeviceKind& kind : device_kinds()) {
    names.push_back(count + kind.name);
    for (const std::string& alias : kind.aliases) names.push_back(count + alias);
  }
  return names;
}

ClusterSpec preset_cluster(std::string_view name) {
  for (const BuiltIn& known : built_in())
    if (known.preset.name == name) return known.make();
  const auto pattern = parse_pattern(name);
  if (pattern && !pattern->devices)
    for (const PodUnit& unit : pod_units())
      if (pattern->kind == unit.name) {
        check_size(name, pattern->count, unit.devices, unit.hosts);
        return pod_of(std::string{name}, unit, pattern->count);
      }
  const DeviceKind* kind = pattern ? find_device_kind(pattern->kind) : nullptr;
  if (!kind) fail_unknown(name);
  if (pattern->devices) {
    check_size(name, pattern->count, *pattern->devices);
    return hosts_of(std::string{name}, *kind, pattern->count, *pattern->devices);
  }
  if (pattern->count < 1 || pattern->count > kMostDevices)
    refuse(
        "cluster-size", fmt::format("'{}' asks for a number of devices outside 1 to {}", name, kMostDevices),
        fmt::format("for many hosts on a network, use HxGxKIND, for example 16x8x{}; or describe the cluster in a file",
                    pattern->kind));
  return many_of(std::string{name}, *kind, pattern->count);
}

}  // namespace trainyard
