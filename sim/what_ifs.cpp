#include "what_ifs.hpp"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <string_view>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "usage.hpp"

namespace trainyard::program {
namespace {

/// Parses a factor: "2x", "2", "0.5x".
double parse_factor(const std::string& text, const std::string& option) {
  std::string_view number = text;
  if (number.ends_with('x')) number.remove_suffix(1);
  double factor = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), factor);
  if (error != std::errc{} || end != number.data() + number.size() || !(factor >= 1e-3 && factor <= 1e3))
    throw UsageError(
        fmt::format("{}: '{}' is not a factor from 0.001 to 1000", option, text),
        option == "--slow" ? "1.5 takes one and a half times as long" : "2x is twice as fast, 0.5x half as fast");
  return factor;
}

/// Resolves names of devices and links on a cluster.
class Named {
 public:
  explicit Named(const Cluster& cluster) : cluster_(cluster), spec_(cluster.spec()) {}

  std::vector<DeviceId> devices(const std::string& name) const {
    const DeviceKind* alias = find_device_kind(name);  // "V100"
    std::vector<DeviceId> found;
    for (const DeviceId id : cluster_.devices()) {
      const Device& device = cluster_.device(id);
      if (name == "devices" || device.name == name || (!device.kind.empty() && device.kind == name) ||
          (alias && device.kind == alias->name) || (!device.device_class.empty() && device.device_class == name))
        found.push_back(id);
    }
    return found;
  }

  /// Links by name or bus, an egress as "egress:gpu0", all as "links", or the links between two devices as "gpu0-gpu1".
  std::vector<LinkId> links(const std::string& name) const {
    std::vector<LinkId> found;
    for (std::size_t i = 0; i < spec_.links.size(); ++i)
      if (name == "links" || spec_.links[i].name == name || (!spec_.links[i].bus.empty() && spec_.links[i].bus == name))
        found.push_back(LinkId{i});
    for (std::size_t i = 0; i < spec_.egresses.size(); ++i)
      if (name == "links" || "egress:" + spec_.egresses[i].device == name)
        found.push_back(LinkId{spec_.links.size() + i});
    if (!found.empty()) return found;
    // Device names may hold a dash themselves.
    for (auto dash = name.find('-'); dash != std::string::npos; dash = name.find('-', dash + 1)) {
      const auto from = cluster_.find_device(name.substr(0, dash)), to = cluster_.find_device(name.substr(dash + 1));
      if (!from || !to || *from == *to) continue;
      std::set<LinkId> both;
      for (const LinkId link : cluster_.route(*from, *to).links) both.insert(link);
      for (const LinkId link : cluster_.route(*to, *from).links) both.insert(link);
      return {both.begin(), both.end()};
    }
    return {};
  }

  UsageError unknown(const std::string& name, const std::string& option) const {
    std::vector<std::string> names{"devices"};
    for (const Device& device : spec_.devices) {
      names.push_back(device.name);
      if (!device.kind.empty()) names.push_back(device.kind);
    }
    if (option != "--larger") {
      names.emplace_back("links");
      for (const Link& link : spec_.links) names.push_back(link.name);
      for (const Egress& egress : spec_.egresses) names.push_back("egress:" + egress.device);
      if (spec_.fabric) names.insert(names.end(), {"ports", "network"});
    }
    std::string help = did_you_mean(name, names);
    if (help.empty())
      help = fmt::format("name a device ({}), a kind of device, or `devices` for all{}", spec_.devices.front().name,
                         option != "--larger" ? "; or a link, two devices as in gpu0-gpu1, or `links` for all" : "");
    return UsageError(fmt::format("{}: {} has no device{} '{}'", option, cluster_.name(),
                                  option != "--larger" ? " or link" : "", name),
                      help);
  }

 private:
  const Cluster& cluster_;
  const ClusterSpec& spec_;
};

}  // namespace

AskedWhatIf parse_what_if(const std::string& text, const std::string& option) {
  AskedWhatIf asked;
  for (const std::string& part : between_commas(text)) {
    const auto equals = part.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == part.size())
      throw option == "--slow" ? UsageError(fmt::format("{}: '{}' is not of the form NAME=1.5", option, part),
                                            "as in gpu0=1.5, or gpu0-gpu1=4")
                               : UsageError(fmt::format("{}: '{}' is not of the form NAME=2x", option, part),
                                            "as in gpu0=2x, or gpu0-gpu1=4x");
    asked.emplace_back(part.substr(0, equals), parse_factor(part.substr(equals + 1), option));
  }
  return asked;
}

double parse_slowness(const std::string& text, const std::string& option) {
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc{} || end != text.data() + text.size() || !(factor >= 1 && factor <= 1000))
    throw UsageError(fmt::format("{}: '{}' is not a number from 1 to 1000", option, text),
                     "1.5 takes one and a half times as long");
  return factor;
}

WhatIf with_more_memory(const AskedWhatIf& asked, const Cluster& cluster) {
  const Named named{cluster};
  WhatIf result;
  for (const auto& [name, factor] : asked) {
    MachineChange change{.factor = factor};
    change.memories = named.devices(name);
    if (change.memories.empty()) throw named.unknown(name, "--larger");
    result.name += fmt::format("{}{} with {} memory", result.name.empty() ? "" : ", ", name, factor_text(factor));
    result.changes.push_back(std::move(change));
  }
  return result;
}

namespace {

WhatIf with_speeds(const AskedWhatIf& asked, const Cluster& cluster, const std::string& option) {
  const Named named{cluster};
  const bool fabric = cluster.spec().fabric.has_value();
  WhatIf result;
  for (const auto& [name, factor] : asked) {
    MachineChange change{.factor = factor};
    change.devices = named.devices(name);
    change.ports = fabric && (name == "ports" || name == "links");
    change.network = fabric && (name == "network" || name == "links");
    if (change.devices.empty() && !fabric) change.links = named.links(name);
    if (change.devices.empty() && change.links.empty() && !change.ports && !change.network) {
      if (fabric && !named.links(name).empty())
        throw UsageError(
            fmt::format("{}: {} has a fabric, whose links cannot change one by one", option, cluster.name()),
            "change all its ports or its whole network: ports=2x, network=2x");
      throw named.unknown(name, option);
    }
    result.name += fmt::format("{}{} {} as fast", result.name.empty() ? "" : ", ", name, factor_text(factor));
    result.changes.push_back(std::move(change));
  }
  return result;
}

}  // namespace

WhatIf with_more_speed(const AskedWhatIf& asked, const Cluster& cluster) {
  return with_speeds(asked, cluster, "--faster");
}

WhatIf with_slow(const AskedWhatIf& asked, const Cluster& cluster) {
  AskedWhatIf speeds = asked;
  for (auto& [name, factor] : speeds) factor = 1 / factor;
  return with_speeds(speeds, cluster, "--slow");
}

}  // namespace trainyard::program
