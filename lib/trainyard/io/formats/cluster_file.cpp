#include "trainyard/io/formats/cluster_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/toml/toml_table.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kUnlimited = "unlimited";

/// Reads all properties of a device except its name and `part_of`.
Device read_device_facts(TableReader& table) {
  Device device;
  const auto kind_name = table.text("kind");
  const auto device_class = table.text("class");
  const DeviceKind* kind = kind_name ? find_device_kind(*kind_name) : nullptr;
  device.kind = kind_name.value_or("");
  if (kind) {
    device.kind = kind->name;  // replaces an alias by the kind's name
    device.device_class = kind->device_class;
    device.memory = kind->memory;
    device.peak = kind->peak;
    device.memory_bandwidth = kind->memory_bandwidth;
    device.launch_overhead = kind->launch_overhead;
  } else if (const toml::node* node = table.get("kind"); node && node->is_string() && !device_class) {
    std::vector<std::string> known;
    for (const DeviceKind& each : device_kinds()) known.push_back(each.name);
    const std::string meant = did_you_mean(*kind_name, known);
    table.fail(*node, "kind", "unknown-kind", fmt::format("unknown device kind '{}'", *kind_name),
               meant + (meant.empty() ? "" : " ") +
                   "For any other kind, give the numbers of its data sheet too: class = \"gpu\", memory = \"16 GiB\", "
                   "peak = \"15.7 TFLOP/s\", memory_bandwidth = \"900 GB/s\"");
  } else if (!node && !device_class) {
    table.missing("kind", "give a known kind, or class = \"gpu\" with memory, peak and memory_bandwidth");
  }
  if (device_class) device.device_class = *device_class;
  if (const toml::node* memory = table.get("memory"); memory && memory->value<std::string_view>() == kUnlimited)
    device.memory.reset();
  else if (const auto size = table.quantity("memory", parse_bytes))
    device.memory = *size;
  if (const auto peak = table.quantity("peak", parse_flops_rate)) device.peak = *peak;
  if (const auto rate = table.quantity("memory_bandwidth", parse_bandwidth)) device.memory_bandwidth = *rate;
  if (const auto time = table.quantity("launch_overhead", parse_time)) device.launch_overhead = *time;
  if (const auto time = table.quantity("gap", parse_time)) device.gap = *time;
  return device;
}

Device read_device(TableReader& table) {
  std::string name = table.required_text("name", "give each device a unique name");
  Device device = read_device_facts(table);
  device.name = std::move(name);
  device.part_of = table.text("part_of").value_or("");
  return device;
}

BytesPerSecond read_bandwidth(TableReader& table, const char* key = "bandwidth") {
  if (!table.get(key)) table.missing(key, fmt::format("give it, as in {} = \"50 GB/s\"", key));
  return table.quantity(key, parse_bandwidth).value_or(BytesPerSecond{1});
}

Link read_link(TableReader& table) {
  Link link;
  const auto name = table.text("name");
  link.from = table.required_text("from", "name a device or a switch");
  link.to = table.required_text("to", "name a device or a switch");
  link.name = name ? *name : link.from + "-" + link.to;
  link.bandwidth = read_bandwidth(table);
  link.latency = table.quantity("latency", parse_time).value_or(Nanoseconds{});
  link.gap = table.quantity("gap", parse_time).value_or(Nanoseconds{});
  link.duplex = table.word("duplex", {"full", "half"}) == 0 ? Duplex::full : Duplex::half;
  constexpr Sharing kSharings[] = {Sharing::serial, Sharing::none, Sharing::fair};
  link.sharing = kSharings[table.word("sharing", {"serial", "none", "fair"})];
  link.bus = table.text("bus").value_or("");
  return link;
}

Egress read_egress(TableReader& table) {
  Egress egress;
  egress.device = table.required_text("device", "name a device");
  egress.bandwidth = read_bandwidth(table);
  egress.latency = table.quantity("latency", parse_time).value_or(Nanoseconds{});
  egress.gap = table.quantity("gap", parse_time).value_or(Nanoseconds{});
  egress.broadcast = table.truth("broadcast");
  return egress;
}

GivenRoute read_route(TableReader& table) {
  GivenRoute route;
  route.from = table.required_text("from", "name a device");
  route.to = table.required_text("to", "name a device");
  if (!table.get("links")) table.missing("links", "name its links in order, as in links = [\"a\", \"b\"]");
  route.links = table.texts("links");
  return route;
}

MeasuredRoute read_measured(TableReader& table) {
  MeasuredRoute route;
  route.from = table.required_text("from", "name a device");
  route.to = table.required_text("to", "name a device");
  route.bandwidth = read_bandwidth(table);
  route.latency = table.quantity("latency", parse_time).value_or(Nanoseconds{});
  return route;
}

/// Reads a count. A negative one becomes 0, which make_cluster() rejects later.
std::size_t read_count(TableReader& table, const char* key, std::optional<std::size_t> left_out = {}) {
  if (!left_out && !table.get(key)) table.missing(key, fmt::format("give it, as in {} = 8", key));
  const auto count = table.whole(key);
  return count ? static_cast<std::size_t>(std::max<std::int64_t>(0, *count)) : left_out.value_or(1);
}

/// Reads the torus's dimensions; negative ones become 0, as in read_count().
std::vector<std::size_t> read_torus(TableReader& table) {
  std::vector<std::size_t> sizes;
  const toml::node* node = table.get("torus");
  if (node == nullptr) return sizes;
  const toml::array* array = node->as_array();
  const bool whole = array != nullptr && !array->empty() &&
                     std::ranges::all_of(*array, [](const toml::node& size) { return size.is_integer(); });
  if (!whole)
    table.fail(*node, "torus", "type", "\"torus\" must be a list of whole numbers",
               "give the devices in each dimension, as in torus = [4, 4, 4]");
  else
    for (const toml::node& size : *array)
      sizes.push_back(static_cast<std::size_t>(std::max<std::int64_t>(0, size.as_integer()->get())));
  return sizes;
}

/// Reads the fabric, and creates its devices unless the file lists them.
void read_fabric(TableReader& table, ClusterSpec& spec) {
  FabricSpec& fabric = spec.fabric.emplace();
  fabric.hosts = read_count(table, "hosts");
  fabric.torus = read_torus(table);
  std::optional<std::size_t> of_torus;
  for (const std::size_t size : fabric.torus)
    of_torus = std::min(of_torus.value_or(1), FabricSpec::kMostDevices) * std::min(size, FabricSpec::kMostDevices);
  fabric.devices_per_host = read_count(table, "devices_per_host", of_torus);
  const bool one_device = fabric.devices_per_host == 1, one_host = fabric.hosts == 1;
  // Keys that a single device or a single host does not need are accepted.
  const auto bandwidth = [&](const char* key, bool needed) {
    return needed || table.get(key) ? read_bandwidth(table, key) : BytesPerSecond{};
  };
  const auto latency = [&](const char* key) { return table.quantity(key, parse_time).value_or(Nanoseconds{}); };
  fabric.port_bandwidth = bandwidth("port_bandwidth", !one_device);
  fabric.port_latency = latency("port_latency");
  fabric.nics_per_host = read_count(table, "nics_per_host", fabric.devices_per_host);
  fabric.nic_bandwidth = bandwidth("nic_bandwidth", !one_host);
  fabric.nic_latency = latency("nic_latency");
  fabric.leaf = table.word("leaf", {"rail", "rack"}) == 0 ? FabricSpec::Leaf::rail : FabricSpec::Leaf::rack;
  fabric.hosts_per_leaf = read_count(table, "hosts_per_leaf", fabric.hosts);
  fabric.oversubscription = table.number("oversubscription").value_or(1);
  fabric.uplink_latency = latency("uplink_latency");
  if (table.get("hosts_per_pod")) fabric.hosts_per_pod = read_count(table, "hosts_per_pod");
  fabric.core_oversubscription = table.number("core_oversubscription").value_or(1);
  fabric.core_latency = latency("core_latency");
  fabric.sharing = table.word("sharing", {"serial", "fair"}) == 0 ? Sharing::serial : Sharing::fair;
  if (!spec.devices.empty()) return;
  const Device like = read_device_facts(table);
  if (fabric.hosts <= FabricSpec::kMostDevices && fabric.devices_per_host <= FabricSpec::kMostDevices &&
      fabric.device_count() <= FabricSpec::kMostDevices)
    spec.devices = numbered_devices(like, fabric.device_count());
}

ClusterSpec parse_checked(std::string_view text, const std::string& file, const std::string& default_name) {
  const toml::table table = parse_toml(text, file);
  TomlFindings findings{file, text};
  TableReader root{table, "", "a cluster", findings};
  ClusterSpec spec;
  spec.name = root.text("name").value_or(default_name);
  root.for_each("device", "a device", [&](TableReader& device) { spec.devices.push_back(read_device(device)); });
  root.for_each("switch", "a switch", [&](TableReader& at) {
    spec.switches.push_back(at.required_text("name", "give each switch a unique name"));
  });
  root.for_each("link", "a link", [&](TableReader& link) { spec.links.push_back(read_link(link)); });
  root.for_each("egress", "an egress", [&](TableReader& egress) { spec.egresses.push_back(read_egress(egress)); });
  root.for_each("route", "a route", [&](TableReader& route) { spec.routes.push_back(read_route(route)); });
  root.for_each("measured", "a measured route",
                [&](TableReader& route) { spec.measured.push_back(read_measured(route)); });
  root.for_one("fabric", "the fabric", [&](TableReader& fabric) { read_fabric(fabric, spec); });
  root.check_unknown_keys();
  findings.raise_if_any();
  try {
    make_cluster(spec);
  } catch (const InputError& error) {
    findings.add(error.findings(), table);
    findings.raise_if_any();
    throw;
  }
  return spec;
}

void write_text(std::string& out, const char* key, const std::string& text) {
  if (!text.empty()) out += fmt::format("{} = {}\n", key, toml_string(text));
}

void write_device_facts(std::string& out, const Device& device) {
  const DeviceKind* known = device.kind.empty() ? nullptr : find_device_kind(device.kind);
  Device usual;  // the values that a reader assumes for missing keys
  if (known) {
    usual.device_class = known->device_class;
    usual.memory = known->memory;
    usual.peak = known->peak;
    usual.memory_bandwidth = known->memory_bandwidth;
    usual.launch_overhead = known->launch_overhead;
  }
  write_text(out, "kind", device.kind);
  if (!known || device.device_class != usual.device_class)
    out += fmt::format("class = {}\n", toml_string(device.device_class));
  if (device.memory != usual.memory)
    out += fmt::format("memory = \"{}\"\n", device.memory ? exact_bytes(*device.memory) : std::string{kUnlimited});
  if (device.peak != usual.peak) out += fmt::format("peak = \"{}\"\n", exact_rate(device.peak));
  if (device.memory_bandwidth != usual.memory_bandwidth)
    out += fmt::format("memory_bandwidth = \"{}\"\n", exact_rate(device.memory_bandwidth));
  if (device.launch_overhead != usual.launch_overhead)
    out += fmt::format("launch_overhead = \"{}\"\n", exact_time(device.launch_overhead));
  if (device.gap != usual.gap) out += fmt::format("gap = \"{}\"\n", exact_time(device.gap));
}

void write_device(std::string& out, const Device& device) {
  out += fmt::format("\n[[device]]\nname = {}\n", toml_string(device.name));
  write_device_facts(out, device);
  write_text(out, "part_of", device.part_of);
}

/// Writes [fabric]; returns whether it covers the devices as well.
bool write_fabric(std::string& out, const ClusterSpec& spec) {
  const FabricSpec& fabric = *spec.fabric;
  const auto count = [&](const char* key, std::size_t value) { out += fmt::format("{} = {}\n", key, value); };
  const auto rate = [&](const char* key, BytesPerSecond value) {
    if (value.value > 0) out += fmt::format("{} = \"{}\"\n", key, exact_rate(value));
  };
  const auto time = [&](const char* key, Nanoseconds value) {
    if (value != Nanoseconds{}) out += fmt::format("{} = \"{}\"\n", key, exact_time(value));
  };
  out += "\n[fabric]\n";
  count("hosts", fabric.hosts);
  count("devices_per_host", fabric.devices_per_host);
  if (!fabric.torus.empty()) out += fmt::format("torus = [{}]\n", fmt::join(fabric.torus, ", "));
  rate("port_bandwidth", fabric.port_bandwidth);
  time("port_latency", fabric.port_latency);
  count("nics_per_host", fabric.nics_per_host);
  rate("nic_bandwidth", fabric.nic_bandwidth);
  time("nic_latency", fabric.nic_latency);
  if (fabric.leaf == FabricSpec::Leaf::rack) out += "leaf = \"rack\"\n";
  count("hosts_per_leaf", fabric.hosts_per_leaf);
  if (fabric.oversubscription != 1) out += fmt::format("oversubscription = {}\n", fabric.oversubscription);
  time("uplink_latency", fabric.uplink_latency);
  if (fabric.hosts_per_pod) count("hosts_per_pod", *fabric.hosts_per_pod);
  if (fabric.core_oversubscription != 1)
    out += fmt::format("core_oversubscription = {}\n", fabric.core_oversubscription);
  time("core_latency", fabric.core_latency);
  if (fabric.sharing == Sharing::fair) out += "sharing = \"fair\"\n";
  const bool numbered = spec.devices == numbered_devices(spec.devices.front(), spec.devices.size());
  if (numbered) write_device_facts(out, spec.devices.front());
  return numbered;
}

void write_times(std::string& out, Nanoseconds latency, Nanoseconds gap) {
  if (latency != Nanoseconds{}) out += fmt::format("latency = \"{}\"\n", exact_time(latency));
  if (gap != Nanoseconds{}) out += fmt::format("gap = \"{}\"\n", exact_time(gap));
}

}  // namespace

ClusterSpec read_cluster(const std::filesystem::path& path) {
  const std::string stem = path == "-" ? std::string{} : path.stem().string();
  return parse_checked(read_input(path, limits::kToml), input_name(path), stem);
}

ClusterSpec parse_cluster(std::string_view text, const std::string& name) { return parse_checked(text, name, ""); }

void write_cluster(const ClusterSpec& spec, std::ostream& out) {
  std::string text = fmt::format("name = {}\n", toml_string(spec.name));
  if (!spec.fabric || !write_fabric(text, spec))
    for (const Device& device : spec.devices) write_device(text, device);
  for (const std::string& name : spec.switches) text += fmt::format("\n[[switch]]\nname = {}\n", toml_string(name));
  for (const Link& link : spec.links) {
    text += fmt::format("\n[[link]]\nname = {}\nfrom = {}\nto = {}\nbandwidth = \"{}\"\n", toml_string(link.name),
                        toml_string(link.from), toml_string(link.to), exact_rate(link.bandwidth));
    write_times(text, link.latency, link.gap);
    if (link.duplex == Duplex::half) text += "duplex = \"half\"\n";
    if (link.sharing == Sharing::none) text += "sharing = \"none\"\n";
    if (link.sharing == Sharing::fair) text += "sharing = \"fair\"\n";
    write_text(text, "bus", link.bus);
  }
  for (const Egress& egress : spec.egresses) {
    text += fmt::format("\n[[egress]]\ndevice = {}\nbandwidth = \"{}\"\n", toml_string(egress.device),
                        exact_rate(egress.bandwidth));
    write_times(text, egress.latency, egress.gap);
    if (egress.broadcast) text += "broadcast = true\n";
  }
  for (const GivenRoute& route : spec.routes) {
    text += fmt::format("\n[[route]]\nfrom = {}\nto = {}\nlinks = [", toml_string(route.from), toml_string(route.to));
    for (std::size_t i = 0; i < route.links.size(); ++i) text += (i ? ", " : "") + toml_string(route.links[i]);
    text += "]\n";
  }
  for (const MeasuredRoute& route : spec.measured) {
    if (route.curve != 0) continue;  // of a calibration
    text += fmt::format("\n[[measured]]\nfrom = {}\nto = {}\nbandwidth = \"{}\"\n", toml_string(route.from),
                        toml_string(route.to), exact_rate(route.bandwidth));
    write_times(text, route.latency, {});
  }
  out << text;
}

}  // namespace trainyard
