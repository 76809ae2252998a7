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

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard {
namespace {

/// Rate and latency of one sort of link, one way. A latency is the share of one copy's fixed cost that the link stands
/// for: a copy between two GPUs pays it at both ports, so switches between them add little.
struct LinkKind {
  BytesPerSecond bandwidth;
  Nanoseconds latency;
};

// NVIDIA data sheets count both directions and all links; these are one link, one way.
constexpr double kNvLink1 = 20e9;  // P100: 4 links, 160 GB/s in all
constexpr double kNvLink2 = 25e9;  // V100: 6 links, 300 GB/s in all
// A copy between neighbours takes 5 us beside its bytes: cudaMemcpyPeer of a few bytes takes 5 to 10.
constexpr Nanoseconds kNvLinkLatency{5'000};
// One port of a switch is half of such a copy.
constexpr LinkKind kNvSwitchA100{BytesPerSecond{300e9}, Nanoseconds{2'500}};  // 600 GB/s in all: NVIDIA A100 data sheet
constexpr LinkKind kNvSwitchH100{BytesPerSecond{450e9}, Nanoseconds{2'500}};  // 900 GB/s in all: NVIDIA H100 data sheet
constexpr LinkKind kNvSwitchV100{BytesPerSecond{150e9},
                                 Nanoseconds{2'500}};  // 300 GB/s in all: NVIDIA DGX-2 data sheet
// PCIe 3.0 x16: 8 GT/s x 16 x 128/130 / 8 = 15.75 GB/s, about 12 after packet headers and flow control, as copies show.
constexpr LinkKind kPcie3Port{BytesPerSecond{12e9}, Nanoseconds{4'000}};
constexpr LinkKind kPcie3Trunk{BytesPerSecond{12e9}, Nanoseconds{500}};
// QPI at 9.6 GT/s x 2 bytes = 19.2 GB/s one way by Intel's specification.
constexpr LinkKind kSocketLink{BytesPerSecond{19'200'000'000.0}, Nanoseconds{500}};
// Network cards: line rate / 8; latency of card, cable and half a switch (1 to 2 us) and of the hand-over to the card.
constexpr LinkKind kNic100{BytesPerSecond{12'500'000'000.0}, Nanoseconds{5'000}};
constexpr LinkKind kNic200{BytesPerSecond{25e9}, Nanoseconds{5'000}};
constexpr LinkKind kNic400{BytesPerSecond{50e9}, Nanoseconds{5'000}};
// A copy between two cores at half of what one core copies from memory; hand-over by spinning takes 0.1 us.
constexpr LinkKind kCoreLink{BytesPerSecond{10e9}, Nanoseconds{500}};

// One cable and one switch more: an estimate.
constexpr Nanoseconds kUplinkLatency{500};
// NVIDIA DGX SuperPOD reference architecture (H100): 32 hosts to a scalable unit, which has a leaf switch for each
// rail.
constexpr std::size_t kHostsPerLeaf = 32;

constexpr std::size_t kGpusPerHost = 8;
constexpr std::size_t kMostDevices = 64;

/// Adds parts to a specification.
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

/// Every GPU with one port to its host's NVSwitch, and, where there are more hosts than one, with one network card.
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

// What `nvidia-smi topo -m` shows on a DGX-1 with V100: six links a GPU.
constexpr std::array<Bond, 16> kCubeMeshV100{{{0, 1, 1},
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

/// The hosts' PCIe trees: a switch for every `per_switch` GPUs, a root for every two switches (a CPU socket), sockets
/// joined to each other, and one network card on each host's first socket.
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
        parts.join("pcie", parts.device(j), hub, kPcie3Port);
      parts.join("pcie", hub, sockets.back(), kPcie3Trunk);
    }
    for (std::size_t s = 1; s < sockets.size(); ++s) parts.join("qpi", sockets[s - 1], sockets[s], kSocketLink);
    first_sockets.push_back(sockets.front());
  }
  if (hosts == 1) return;
  const std::string fabric = parts.add_switch("fabric");
  for (const std::string& socket : first_sockets) parts.join("nic", socket, fabric, kNic100);
}

/// The cube mesh, cut to the GPUs that there are, over the PCIe trees.
void join_by_cube_mesh(Assembly& parts, double link_rate, bool bonds) {
  const std::size_t count = parts.device_count();
  if (count < 2) return;
  for (std::size_t host = 0; host < hosts_for(count); ++host) {
    const std::size_t first = host * kGpusPerHost, last = std::min(count, first + kGpusPerHost);
    for (const Bond& bond : kCubeMeshV100) {
      if (first + bond.b >= last) continue;
      // A pair alone has no one else to spend its links on: both ends bond two.
      const int links = !bonds ? 1 : count == 2 ? 2 : bond.links;
      parts.join("nvlink", parts.device(first + bond.a), parts.device(first + bond.b),
                 {BytesPerSecond{link_rate * links}, kNvLinkLatency});
    }
  }
  if (count > 2) join_by_pcie(parts, 2);
}

/// Boards of two GPUs behind one switch each; the boards' ways to the root share one bus, which carries one transfer at
/// a time.
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

/// Every device on one port to its host.
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

/// Whether the kind is of the family, and no card that PCIe alone joins to others.
bool has_stem(const DeviceKind& kind, std::string_view stem) {
  return kind.name.starts_with(stem) && kind.name.find("PCIe") == std::string::npos;
}

ClusterSpec many_of(std::string name, const DeviceKind& kind, std::size_t count) {
  Assembly parts{std::move(name)};
  parts.add_devices(kind, count, kind.device_class);
  const auto is = [&](std::string_view stem) { return has_stem(kind, stem); };
  if (is("H100") || is("H200"))
    join_by_nvswitch(parts, kNvSwitchH100, kNic400);
  else if (is("A100"))
    join_by_nvswitch(parts, kNvSwitchA100, kNic200);
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
    join_by_host(parts, "pcie", "host", kPcie3Port);
  return std::move(parts).take();
}

/// Hosts on a fabric: a card for every `devices_per_nic` devices of a host, or one for all.
ClusterSpec hosts_of(std::string name, const DeviceKind& kind, std::size_t hosts, std::size_t devices) {
  struct Parts {
    LinkKind port, nic;
    std::size_t devices_per_nic = 0;
  };
  const auto is = [&](std::string_view stem) { return has_stem(kind, stem); };
  const Parts parts = is("H100") || is("H200") ? Parts{kNvSwitchH100, kNic400, 1}
                      : is("A100")             ? Parts{kNvSwitchA100, kNic200, 1}
                      : is("V100")             ? Parts{kNvSwitchV100, kNic100, 2}
                      : is("cpu-core")         ? Parts{kCoreLink, kNic100}
                      : is("cpu")              ? Parts{kSocketLink, kNic100}
                                               : Parts{kPcie3Port, kNic100};
  const bool even = parts.devices_per_nic > 0 && devices % parts.devices_per_nic == 0;
  const std::size_t nics = even ? devices / parts.devices_per_nic : 1;
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
  for (std::size_t i = 0; i < 2; ++i) parts.join("pcie", parts.device(i), hub, kPcie3Port);
  return std::move(parts).take();
}

ClusterSpec host_with_two_cards() {
  Assembly parts{"cpu-2x2080ti"};
  parts.add_device(kind_of("cpu-socket"), "cpu0");
  parts.add_devices(kind_of("RTX2080Ti"), 2, "gpu");
  // The CPU is the root: what passes between the cards passes through its memory.
  for (std::size_t i = 1; i < 3; ++i) parts.join("pcie", parts.device(i), parts.device(0), kPcie3Port);
  return std::move(parts).take();
}

const std::string kNvSwitchSource =
    "one port a GPU to an NVSwitch that never blocks; 2.5 us a port, so 5 us a copy: an estimate, and copies reach "
    "about "
    "85 % of the port's rate on H100 (calibrate to have it right)";

struct BuiltIn {
  ClusterPreset preset;
  std::function<ClusterSpec()> make;
};

std::vector<BuiltIn> all_presets() {
  const auto systems = [](std::string name, std::string_view kind, std::size_t count) {
    return [name, kind, count] { return many_of(name, kind_of(kind), count); };
  };
  return {
      {{"cpu", "four cores of one generic CPU socket, each a device, joined by its memory",
        "generic, no one product: 10 GB/s a core and 0.5 us at each end of a copy"},
       systems("cpu", "cpu-core", 4)},
      {{"p2.8xlarge", "8 K80 (four boards of two) on PCIe 3.0; the boards share one bus to the host",
        "Amazon EC2 P2 instance description; PCIe 3.0 x16 at 12 GB/s after headers; latencies are estimates"},
       systems("p2.8xlarge", "K80", 8)},
      {{"dgx1-v100", "8 V100 16 GB in a hybrid cube mesh of NVLinks, over PCIe switches and two CPU sockets",
        "NVIDIA DGX-1 system architecture white paper and its `nvidia-smi topo -m`: NVLink 2 at 25 GB/s a link and "
        "direction, PCIe 3.0 x16 at 12 GB/s after headers, QPI at 19.2 GB/s; latencies are estimates: 5 us a copy over "
        "NVLink, 8 us and more over PCIe"},
       systems("dgx1-v100", "V100-SXM2-16GB", 8)},
      {{"2xV100-nvlink-pcie", "2 V100 16 GB on a bond of two NVLinks, with PCIe beside it",
        "NVIDIA Tesla V100 data sheet: NVLink 2 at 25 GB/s a link and direction; PCIe 3.0 x16 at 12 GB/s after "
        "headers; "
        "latencies are estimates"},
       pair_on_nvlink_and_pcie},
      {{"cpu-2x2080ti", "one CPU socket with two RTX 2080 Ti on PCIe 3.0; the CPU runs ops too",
        "PCIe 3.0 x16 at 12 GB/s after headers; GeForce cards reach each other through the host; latencies are "
        "estimates"},
       host_with_two_cards},
      {{"dgx-a100", "8 A100 40 GB on NVSwitch",
        "NVIDIA DGX A100 data sheet: 300 GB/s a GPU and direction; " + kNvSwitchSource},
       systems("dgx-a100", "A100-SXM4-40GB", 8)},
      {{"hgx-h100", "8 H100 80 GB on NVSwitch",
        "NVIDIA HGX H100 data sheet: 450 GB/s a GPU and direction; " + kNvSwitchSource},
       systems("hgx-h100", "H100-SXM5-80GB", 8)},
      {{"hgx-h200", "8 H200 141 GB on NVSwitch",
        "NVIDIA HGX H200 data sheet: 450 GB/s a GPU and direction; " + kNvSwitchSource},
       systems("hgx-h200", "H200-SXM5-141GB", 8)},
      {{"2xdgx-a100", "two hosts of 8 A100 40 GB on NVSwitch; a 200 Gbit/s network card for each GPU",
        "as dgx-a100; NVIDIA DGX A100 data sheet: eight ConnectX-6 at 200 Gbit/s for compute; " + kNvSwitchSource},
       systems("2xdgx-a100", "A100-SXM4-40GB", 16)},
      {{"2xhgx-h100", "two hosts of 8 H100 80 GB on NVSwitch; a 400 Gbit/s network card for each GPU",
        "as hgx-h100; NVIDIA DGX H100 data sheet: eight ConnectX-7 at 400 Gbit/s; " + kNvSwitchSource},
       systems("2xhgx-h100", "H100-SXM5-80GB", 16)},
      {{"2xhgx-h200", "two hosts of 8 H200 141 GB on NVSwitch; a 400 Gbit/s network card for each GPU",
        "as hgx-h200; NVIDIA DGX H200 data sheet: eight ConnectX-7 at 400 Gbit/s; " + kNvSwitchSource},
       systems("2xhgx-h200", "H200-SXM5-141GB", 16)},
  };
}

const std::vector<BuiltIn>& built_in() {
  static const std::vector<BuiltIn> presets = all_presets();
  return presets;
}

/// "12" of "12xV100", and leaves "V100"; nothing for another form. A count too large to read is beyond any limit.
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

/// "12xV100" and "128x8xH100" in their parts.
struct Pattern {
  std::size_t count;
  std::optional<std::size_t> devices;  // of each of `count` hosts
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
  throw InputError({.code = "unknown-cluster",
                    .message = fmt::format("no built-in cluster is named '{}'", name),
                    .help = (nearest ? fmt::format("did you mean '{}'? ", *nearest) : "") +
                            "built in are NxKIND, as in 4xV100, HxGxKIND, as in 16x8xH100, and those that `trainyard "
                            "clusters` lists; or give a "
                            "cluster file"});
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
  const DeviceKind* kind = pattern ? find_device_kind(pattern->kind) : nullptr;
  if (!kind) fail_unknown(name);
  if (pattern->devices) {
    const std::size_t hosts = pattern->count, devices = *pattern->devices, most = FabricSpec::kMostDevices;
    if (hosts < 1 || devices < 1 || hosts > most || devices > most || hosts * devices > most)
      throw InputError(
          {.code = "cluster-size",
           .message = fmt::format("'{}' asks for a number of hosts or devices outside 1 to {}", name, most),
           .help = "ask for a part of the machine"});
    return hosts_of(std::string{name}, *kind, hosts, devices);
  }
  if (pattern->count < 1 || pattern->count > kMostDevices)
    throw InputError({.code = "cluster-size",
                      .message = fmt::format("'{}' asks for a number of devices outside 1 to {}", name, kMostDevices),
                      .help = fmt::format("many hosts on a network are HxGxKIND, as in 16x8x{}; or describe the "
                                          "cluster in a file",
                                          pattern->kind)});
  return many_of(std::string{name}, *kind, pattern->count);
}

}  // namespace trainyard
