#include "trainyard/cluster/cluster_checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainyard/core/limits.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard::detail {

ClusterChecker::ClusterChecker(const ClusterSpec& spec) : spec_(spec) {
  if (spec.devices.empty() && !spec.fabric)
    report("empty-cluster", "the cluster has no devices", "add at least one [[device]] with a name", "");
  for (std::size_t i = 0; i < spec.devices.size(); ++i) check_device(spec.devices[i], fmt::format("/device/{}", i));
  for (std::size_t i = 0; i < spec.switches.size(); ++i)
    add_vertex(spec.switches[i], fmt::format("/switch/{}", i), "switch");
  std::map<std::string, std::size_t> names;
  for (std::size_t i = 0; i < spec.links.size(); ++i) {
    const std::string at = fmt::format("/link/{}", i);
    const Link& link = spec.links[i];
    check_link(link, at);
    if (!names.try_emplace(link.name, i).second)
      report("duplicate-name", fmt::format("two links are called '{}'", link.name), "rename one of them", at + "/name");
  }
  for (std::size_t i = 0; i < spec.egresses.size(); ++i) check_egress(spec.egresses[i], fmt::format("/egress/{}", i));
  check_fair_links();
  for (std::size_t i = 0; i < spec.routes.size(); ++i) check_route(spec.routes[i], names, fmt::format("/route/{}", i));
  for (std::size_t i = 0; i < spec.measured.size(); ++i)
    check_measured(spec.measured[i], fmt::format("/measured/{}", i));
  if (spec.fabric) check_fabric(*spec.fabric);
  if (spec.devices.size() > limits::kDevices)
    report(
        "too-large",
        fmt::format("the cluster has {} devices, but at most {} are supported", spec.devices.size(), limits::kDevices),
        "describe only a part of the machine", "");
  throw_if_any();
}

void ClusterChecker::check_routed(std::size_t arcs) {
  const std::size_t devices = spec_.devices.size();
  constexpr const char* kHelp = "describe the machine as a [fabric], or describe only a part of it";
  if (devices > limits::kRoutedDevices)
    report("too-large",
           fmt::format("routes between {} devices: a cluster that lists its links may have at most {}", devices,
                       limits::kRoutedDevices),
           kHelp, "");
  else if (arcs > limits::kRouteSteps / devices)
    report("too-large",
           fmt::format("finding the routes of {} devices over {} directions of links and egresses takes too long",
                       devices, arcs),
           kHelp, "");
  throw_if_any();
}

void ClusterChecker::report(std::string code, std::string message, std::string help, std::string pointer) {
  if (findings_.size() < kMostFindings)
    findings_.push_back({std::move(code), std::move(message), std::move(help), std::move(pointer), {}});
}

void ClusterChecker::throw_if_any() const {
  if (!findings_.empty()) throw InputError(findings_);
}

void ClusterChecker::check_device(const Device& device, const std::string& at) {
  add_vertex(device.name, at, "device");
  if (device.memory && *device.memory < Bytes{0})
    report("negative-bytes", fmt::format("the memory of device '{}' must be 0 or more", device.name), "",
           at + "/memory");
  check_rate(device.peak.value, true, "peak", "device", device.name, at);
  check_rate(device.memory_bandwidth.value, true, "memory_bandwidth", "device", device.name, at);
  check_time(device.launch_overhead, "launch_overhead", "device", device.name, at);
  check_time(device.gap, "gap", "device", device.name, at);
  if (device.part_of.empty()) return;
  const Device& first = *std::ranges::find(spec_.devices, device.part_of, &Device::part_of);
  if (first.memory_bandwidth.value != device.memory_bandwidth.value)
    report("parts-differ",
           fmt::format("devices '{}' and '{}' are parts of '{}', but differ in memory_bandwidth", first.name,
                       device.name, device.part_of),
           "give both parts the memory_bandwidth of the whole device", at + "/memory_bandwidth");
}

void ClusterChecker::check_fabric(const FabricSpec& fabric) {
  if (!spec_.switches.empty() || !spec_.links.empty() || !spec_.egresses.empty() || !spec_.routes.empty())
    report("fabric", "a cluster with a fabric also lists switches, links, egresses or routes",
           "leave out either the fabric or these lists", "/fabric");
  if (!spec_.measured.empty())
    report("fabric", "a cluster with a fabric also lists measured routes",
           "put the measured numbers into the fabric, or list links and switches instead", "/fabric");
  for (Finding& finding : detail::check_fabric(fabric, spec_.devices.size()))
    report(finding.code, finding.message, finding.help, finding.pointer);
}

void ClusterChecker::check_link(const Link& link, const std::string& at) {
  check_vertex(link.from, at + "/from", fmt::format("link '{}'", link.name));
  check_vertex(link.to, at + "/to", fmt::format("link '{}'", link.name));
  if (link.from == link.to)
    report("self-link", fmt::format("link '{}' joins '{}' to itself", link.name, link.from), "name two different ends",
           at + "/to");
  check_rate(link.bandwidth.value, false, "bandwidth", "link", link.name, at);
  check_time(link.latency, "latency", "link", link.name, at);
  check_time(link.gap, "gap", "link", link.name, at);
}

void ClusterChecker::check_fair_links() {
  double fastest = 0;
  std::map<std::string, const Link*> first_of_bus;
  for (std::size_t i = 0; i < spec_.links.size(); ++i) {
    const Link& link = spec_.links[i];
    const std::string at = fmt::format("/link/{}", i);
    if (link.sharing == Sharing::fair) {
      fastest = std::max(fastest, link.bandwidth.value);
      if (link.gap != Nanoseconds{0})
        report("fair-gap", fmt::format("fair link '{}' has a gap, but transfers do not take turns on it", link.name),
               "remove the gap, or make the link serial", at + "/gap");
    }
    if (link.bus.empty()) continue;
    const Link& first = *first_of_bus.try_emplace(link.bus, &link).first->second;
    if ((first.sharing == Sharing::fair) != (link.sharing == Sharing::fair))
      report("fair-bus",
             fmt::format("on bus '{}', link '{}' is {}, but link '{}' is {}", link.bus, first.name,
                         first.sharing == Sharing::fair ? "fair" : "not fair", link.name,
                         link.sharing == Sharing::fair ? "fair" : "not fair"),
             "give all links of the bus the same sharing", at + "/sharing");
    else if (link.sharing == Sharing::fair && first.bandwidth != link.bandwidth)
      report("fair-bus",
             fmt::format("links '{}' and '{}' of fair bus '{}' have different bandwidths", first.name, link.name,
                         link.bus),
             "give both the same bandwidth: it is also the bandwidth of the bus", at + "/bandwidth");
  }
  if (fastest == 0) return;
  const auto check_range = [&](double bandwidth, const std::string& name, const std::string& at) {
    if (bandwidth <= 0 || fastest / bandwidth <= kWidestFairRange) return;
    report("fair-range",
           fmt::format("{} is over {:.0f} times slower than the fastest fair link", name, kWidestFairRange),
           "check the units of the bandwidths", at + "/bandwidth");
  };
  for (std::size_t i = 0; i < spec_.links.size(); ++i)
    check_range(spec_.links[i].bandwidth.value, fmt::format("link '{}'", spec_.links[i].name),
                fmt::format("/link/{}", i));
  for (std::size_t i = 0; i < spec_.egresses.size(); ++i)
    check_range(spec_.egresses[i].bandwidth.value, fmt::format("the egress of '{}'", spec_.egresses[i].device),
                fmt::format("/egress/{}", i));
}

void ClusterChecker::check_egress(const Egress& egress, const std::string& at) {
  check_device_name(egress.device, at + "/device", "an egress");
  check_rate(egress.bandwidth.value, false, "bandwidth", "the egress of", egress.device, at);
  check_time(egress.latency, "latency", "the egress of", egress.device, at);
  check_time(egress.gap, "gap", "the egress of", egress.device, at);
  if (!sending_.insert(egress.device).second)
    report("duplicate-name", fmt::format("device '{}' has two egresses", egress.device), "keep one", at + "/device");
}

void ClusterChecker::check_measured(const MeasuredRoute& route, const std::string& at) {
  check_device_name(route.from, at + "/from", "a measured route");
  check_device_name(route.to, at + "/to", "a measured route");
  check_rate(route.bandwidth.value, false, "bandwidth", "the measured route from", route.from, at);
  check_time(route.latency, "latency", "the measured route from", route.from, at);
}

void ClusterChecker::check_route(const GivenRoute& route, const std::map<std::string, std::size_t>& links,
                                 const std::string& at) {
  check_device_name(route.from, at + "/from", "a route");
  check_device_name(route.to, at + "/to", "a route");
  if (route.from == route.to && vertices_.contains(route.from))
    report("broken-route", fmt::format("a route leads from '{}' to itself", route.from), "name two devices",
           at + "/to");
  if (!routed_.emplace(route.from, route.to).second)
    report("duplicate-name", fmt::format("two routes lead from '{}' to '{}'", route.from, route.to), "keep one", at);
  std::string here = route.from;
  for (std::size_t k = 0; k < route.links.size(); ++k) {
    const auto found = links.find(route.links[k]);
    if (found == links.end()) {
      std::vector<std::string> names;
      for (const auto& [name, id] : links) names.push_back(name);
      const auto close = nearest_name(route.links[k], names);
      return report("unknown-link",
                    fmt::format("the route from '{}' to '{}' names link '{}', which does not exist", route.from,
                                route.to, route.links[k]),
                    close ? fmt::format("did you mean '{}'?", *close) : "name a declared [[link]]",
                    fmt::format("{}/links/{}", at, k));
    }
    const Link& link = spec_.links[found->second];
    if (link.from != here && link.to != here)
      return report(
          "broken-route",
          fmt::format("link '{}' does not connect to '{}', which the route from '{}' to '{}' has reached by then",
                      link.name, here, route.from, route.to),
          "list the links in the order of travel", fmt::format("{}/links/{}", at, k));
    here = link.from == here ? link.to : link.from;
  }
  if (here != route.to)
    report("broken-route", fmt::format("the route from '{}' to '{}' ends at '{}'", route.from, route.to, here),
           "list the links in the order of travel", at + "/links");
}

void ClusterChecker::add_vertex(const std::string& name, const std::string& at, const std::string& what) {
  if (name.empty())
    report("missing-name", fmt::format("a {} has no name", what), "give each a unique name", at);
  else if (!vertices_.try_emplace(name, vertices_.size()).second)
    report("duplicate-name", fmt::format("two devices or switches are called '{}'", name), "rename one of them",
           at + "/name");
}

void ClusterChecker::check_vertex(const std::string& name, const std::string& at, const std::string& of) {
  if (vertices_.contains(name)) return;
  std::vector<std::string> names;
  for (const auto& [known, id] : vertices_) names.push_back(known);
  const auto close = nearest_name(name, names);
  report("unknown-device", fmt::format("{} names '{}', which is not a device or switch of this cluster", of, name),
         close ? fmt::format("did you mean '{}'?", *close) : "declare it as [[device]] or [[switch]]", at);
}

void ClusterChecker::check_device_name(const std::string& name, const std::string& at, const std::string& of) {
  const auto known = vertices_.find(name);
  if (known != vertices_.end() && known->second < spec_.devices.size()) return;
  if (known != vertices_.end())
    return report("unknown-device", fmt::format("{} starts or ends at '{}', which is a switch", of, name),
                  "name a device", at);
  check_vertex(name, at, of);
}

void ClusterChecker::check_rate(double rate, bool zero_is_unknown, const char* field, const char* what,
                                const std::string& name, const std::string& at) {
  if (std::isfinite(rate) && (rate > 0 || (zero_is_unknown && rate == 0))) return;
  report("not-positive", fmt::format("the {} of {} '{}' must be more than 0", field, what, name), "",
         fmt::format("{}/{}", at, field));
}

void ClusterChecker::check_time(Nanoseconds time, const char* field, const char* what, const std::string& name,
                                const std::string& at) {
  if (const auto error = error_of(time))
    report(error->code, fmt::format("the {} of {} '{}' {}", field, what, name, error->message), "",
           fmt::format("{}/{}", at, field));
}

}  // namespace trainyard::detail
