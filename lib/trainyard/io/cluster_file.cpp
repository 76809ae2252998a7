#include "trainyard/io/cluster_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <vector>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/toml_value.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kUnlimited = "unlimited";

std::string kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

/// One table of the file: takes its keys by name and finds what is wrong with them.
class TableReader {
 public:
  /// `what` is "a device", for messages.
  TableReader(const toml::table& table, std::string pointer, std::string what, TomlFindings& findings)
      : table_(table), pointer_(std::move(pointer)), what_(std::move(what)), findings_(findings) {}

  const toml::node* get(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  std::optional<std::string> text(const char* key) {
    const toml::node* node = get(key);
    if (!node) return std::nullopt;
    if (const auto* string = node->as_string()) return string->get();
    fail(*node, key, "type", fmt::format("\"{}\" must be a string, got {}", key, kind_of(*node)));
    return std::string{};
  }

  std::string required_text(const char* key, const char* help) {
    if (!table_.get(key)) missing(key, help);
    return text(key).value_or("");
  }

  /// A quantity. `parse` is one of the unit parsers.
  template <class Parse>
  auto quantity(const char* key, Parse parse)
      -> std::optional<decltype(parse(std::string_view{}, std::string_view{}))> {
    const toml::node* node = get(key);
    if (!node) return std::nullopt;
    std::string written;
    if (const auto* string = node->as_string())
      written = string->get();
    else if (const auto* integer = node->as_integer())
      written = fmt::format("{}", integer->get());
    else if (const auto* real = node->as_floating_point())
      written = fmt::format("{}", real->get());
    else {
      fail(*node, key, "type", fmt::format("\"{}\" must be a string such as \"5 us\", got {}", key, kind_of(*node)));
      return std::nullopt;
    }
    try {
      return parse(written, key);
    } catch (const InputError& error) {
      const Finding& finding = error.findings().front();
      fail(*node, key, finding.code, finding.message, finding.help);
      return std::nullopt;
    }
  }

  /// One of a few words, by its position among them; the first where it is absent.
  std::size_t word(const char* key, const std::vector<std::string>& words) {
    const auto written = text(key);
    if (!written) return 0;
    const auto at = std::find(words.begin(), words.end(), *written);
    if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
    if (const toml::node* node = table_.get(key); node->is_string())
      fail(*node, key, "unknown-word", fmt::format("\"{}\" is '{}'", key, *written),
           fmt::format("it can be {}", fmt::join(words, " or ")));
    return 0;
  }

  bool truth(const char* key) {
    const toml::node* node = get(key);
    if (!node) return false;
    if (const auto* boolean = node->as_boolean()) return boolean->get();
    fail(*node, key, "type", fmt::format("\"{}\" must be true or false, got {}", key, kind_of(*node)));
    return false;
  }

  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> all;
    const toml::node* node = get(key);
    if (!node) return all;
    if (const auto* array = node->as_array()) {
      for (const toml::node& element : *array) {
        if (const auto* string = element.as_string())
          all.push_back(string->get());
        else
          fail(element, key, "type", fmt::format("\"{}\" must hold strings, got {}", key, kind_of(element)));
      }
    } else {
      fail(*node, key, "type", fmt::format("\"{}\" must be a list of strings, got {}", key, kind_of(*node)));
    }
    return all;
  }

  void missing(const char* key, const std::string& help) {
    findings_.add(table_.source(), pointer_, "missing-key", fmt::format("{} has no \"{}\"", what_, key), help);
  }
  void fail(const toml::node& at, const char* key, std::string code, std::string message, std::string help = "") {
    findings_.add(at.source(), pointer_ + "/" + key, std::move(code), std::move(message), std::move(help));
  }

  /// Call last: what was not asked for is unknown.
  void check_unknown_keys() {
    for (auto&& [key, value] : table_) {
      const std::string_view name = key.str();
      if (name == "comment" || name.starts_with("x-")) continue;
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      std::string help = did_you_mean(name, known_);
      if (help.empty()) help = fmt::format("known keys: {}", fmt::join(known_, ", "));
      findings_.add(key.source(), pointer_ + "/" + std::string{name}, "unknown-key",
                    fmt::format("unknown key \"{}\" in {}", name, what_), help);
    }
  }

 private:
  const toml::table& table_;
  std::string pointer_;
  std::string what_;
  TomlFindings& findings_;
  std::vector<std::string> known_;
};

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

/// Each table of `[[key]]`.
void for_each_table(TableReader& root, const char* key, const std::string& what, TomlFindings& findings,
                    const std::function<void(TableReader&)>& take) {
  const toml::node* node = root.get(key);
  if (!node) return;
  const auto* array = node->as_array();
  if (!array) {
    root.fail(*node, key, "type", fmt::format("\"{}\" must be a list of tables, got {}", key, kind_of(*node)),
              fmt::format("begin each with [[{}]]", key));
    return;
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    const std::string pointer = fmt::format("/{}/{}", key, i);
    if (const auto* table = array->get(i)->as_table()) {
      TableReader reader{*table, pointer, what, findings};
      take(reader);
      reader.check_unknown_keys();
    } else {
      findings.add(array->get(i)->source(), pointer, "type",
                   fmt::format("\"{}\" must hold tables, got {}", key, kind_of(*array->get(i))),
                   fmt::format("begin each with [[{}]]", key));
    }
  }
}

ClusterSpec parse_checked(std::string_view text, const std::string& file, const std::string& default_name) {
  const toml::table table = parse_toml(text, file);
  TomlFindings findings{file, text};
  TableReader root{table, "", "a cluster", findings};
  ClusterSpec spec;
  spec.name = root.text("name").value_or(default_name);
  for_each_table(root, "device", "a device", findings,
                 [&](TableReader& device) { spec.devices.push_back(read_device(device)); });
  for_each_table(root, "switch", "a switch", findings, [&](TableReader& at) {
    spec.switches.push_back(at.required_text("name", "give each switch a unique name"));
  });
  for_each_table(root, "link", "a link", findings, [&](TableReader& link) { spec.links.push_back(read_link(link)); });
  for_each_table(root, "egress", "an egress", findings,
                 [&](TableReader& egress) { spec.egresses.push_back(read_egress(egress)); });
  for_each_table(root, "route", "a route", findings,
                 [&](TableReader& route) { spec.routes.push_back(read_route(route)); });
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
