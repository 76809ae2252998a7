#include "trainyard/io/cluster_file.hpp"

#include <fmt/format.h>

#include <ostream>
#include <vector>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/toml_table.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kUnlimited = "unlimited";

Device read_device(TableReader& table) {
  Device device;
  device.name = table.required_text("name", "give each device a unique name");
  const auto kind_name = table.text("kind");
  const auto device_class = table.text("class");
  const DeviceKind* kind = kind_name ? find_device_kind(*kind_name) : nullptr;
  device.kind = kind_name.value_or("");
  if (kind) {
    device.kind = kind->name;  // an alias stands for it
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
                   "A kind of your own needs class, memory, peak and memory_bandwidth beside it");
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

BytesPerSecond read_bandwidth(TableReader& table) {
  if (!table.get("bandwidth")) table.missing("bandwidth", "give it, as in bandwidth = \"50 GB/s\"");
  return table.quantity("bandwidth", parse_bandwidth).value_or(BytesPerSecond{1});
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
  link.sharing = table.word("sharing", {"serial", "none"}) == 0 ? Sharing::serial : Sharing::none;
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

void write_device(std::string& out, const Device& device) {
  const DeviceKind* known = device.kind.empty() ? nullptr : find_device_kind(device.kind);
  Device usual;  // what the reader would take for what is left out
  if (known) {
    usual.device_class = known->device_class;
    usual.memory = known->memory;
    usual.peak = known->peak;
    usual.memory_bandwidth = known->memory_bandwidth;
    usual.launch_overhead = known->launch_overhead;
  }
  out += fmt::format("\n[[device]]\nname = {}\n", toml_string(device.name));
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

void write_times(std::string& out, Nanoseconds latency, Nanoseconds gap) {
  if (latency != Nanoseconds{}) out += fmt::format("latency = \"{}\"\n", exact_time(latency));
  if (gap != Nanoseconds{}) out += fmt::format("gap = \"{}\"\n", exact_time(gap));
}

}  // namespace

ClusterSpec read_cluster(const std::filesystem::path& path) {
  const std::string stem = path == "-" ? std::string{} : path.stem().string();
  return parse_checked(read_input(path), input_name(path), stem);
}

ClusterSpec parse_cluster(std::string_view text, const std::string& name) { return parse_checked(text, name, ""); }

void write_cluster(const ClusterSpec& spec, std::ostream& out) {
  std::string text = fmt::format("name = {}\n", toml_string(spec.name));
  for (const Device& device : spec.devices) write_device(text, device);
  for (const std::string& name : spec.switches) text += fmt::format("\n[[switch]]\nname = {}\n", toml_string(name));
  for (const Link& link : spec.links) {
    text += fmt::format("\n[[link]]\nname = {}\nfrom = {}\nto = {}\nbandwidth = \"{}\"\n", toml_string(link.name),
                        toml_string(link.from), toml_string(link.to), exact_rate(link.bandwidth));
    write_times(text, link.latency, link.gap);
    if (link.duplex == Duplex::half) text += "duplex = \"half\"\n";
    if (link.sharing == Sharing::none) text += "sharing = \"none\"\n";
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
  out << text;
}

}  // namespace trainyard
