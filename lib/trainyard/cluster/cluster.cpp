#include "trainyard/cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "trainyard/cluster/routes.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard {
namespace {

constexpr Nanoseconds kLongestLatency{kLongestTime.count >> 20};  // so that no path of a million links overflows

/// The specification's checks, and its vertices by name.
class Checker {
 public:
  explicit Checker(const ClusterSpec& spec) : spec_(spec) {
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
        report("duplicate-name", fmt::format("two links are called '{}'", link.name), "rename one of them",
               at + "/name");
    }
    for (std::size_t i = 0; i < spec.egresses.size(); ++i) check_egress(spec.egresses[i], fmt::format("/egress/{}", i));
    check_fair_links();
    for (std::size_t i = 0; i < spec.routes.size(); ++i)
      check_route(spec.routes[i], names, fmt::format("/route/{}", i));
    for (std::size_t i = 0; i < spec.measured.size(); ++i)
      check_measured(spec.measured[i], fmt::format("/measured/{}", i));
    if (spec.fabric) check_fabric(*spec.fabric);
    if (spec.devices.size() > limits::kDevices)
      report("too-large", fmt::format("{} devices are more than {}", spec.devices.size(), limits::kDevices),
             "describe a part of the machine", "");
    throw_if_any();
  }

  /// Throws where routes between the devices over so many directions of links take too long to find or to keep.
  void check_routed(std::size_t arcs) {
    const std::size_t devices = spec_.devices.size();
    constexpr const char* kHelp = "describe the machine as a [fabric], or a part of it";
    if (devices > limits::kRoutedDevices)
      report("too-large",
             fmt::format("routes between {} devices: a cluster that lists links has at most {}", devices,
                         limits::kRoutedDevices),
             kHelp, "");
    else if (arcs > limits::kRouteSteps / devices)
      report("too-large",
             fmt::format("routes of {} devices over {} directions of links and egresses take too long to find", devices,
                         arcs),
             kHelp, "");
    throw_if_any();
  }

  std::size_t vertex(const std::string& name) const { return vertices_.at(name); }
  std::size_t vertex_count() const { return vertices_.size(); }

  void report(std::string code, std::string message, std::string help, std::string pointer) {
    if (findings_.size() < kMostFindings)
      findings_.push_back({std::move(code), std::move(message), std::move(help), std::move(pointer), {}});
  }
  void throw_if_any() const {
    if (!findings_.empty()) throw InputError(findings_);
  }

 private:
  void check_device(const Device& device, const std::string& at) {
    add_vertex(device.name, at, "device");
    if (device.memory && *device.memory < Bytes{0})
      report("negative-bytes", fmt::format("the memory of device '{}' must be 0 or more", device.name), "",
             at + "/memory");
    check_rate(device.peak.value, true, "peak", "device", device.name, at);
    check_rate(device.memory_bandwidth.value, true, "memory_bandwidth", "device", device.name, at);
    check_time(device.launch_overhead, "launch_overhead", "device", device.name, at);
    check_time(device.gap, "gap", "device", device.name, at);
  }

  void check_fabric(const FabricSpec& fabric) {
    if (!spec_.switches.empty() || !spec_.links.empty() || !spec_.egresses.empty() || !spec_.routes.empty())
      report("fabric", "a cluster with a fabric has switches, links, egresses or routes of its own",
             "leave out either the fabric or the others", "/fabric");
    if (!spec_.measured.empty())
      report("fabric", "routes of a cluster with a fabric were measured one by one",
             "give the fabric's own numbers, or write out links and switches", "/fabric");
    for (Finding& finding : detail::check_fabric(fabric, spec_.devices.size()))
      report(finding.code, finding.message, finding.help, finding.pointer);
  }

  void check_link(const Link& link, const std::string& at) {
    if (link.name.empty()) report("missing-name", "a link has no name", "give each link a unique name", at);
    check_vertex(link.from, at + "/from", fmt::format("link '{}'", link.name));
    check_vertex(link.to, at + "/to", fmt::format("link '{}'", link.name));
    if (link.from == link.to)
      report("self-link", fmt::format("link '{}' joins '{}' to itself", link.name, link.from),
             "name two different ends", at + "/to");
    check_rate(link.bandwidth.value, false, "bandwidth", "link", link.name, at);
    check_time(link.latency, "latency", "link", link.name, at);
    check_time(link.gap, "gap", "link", link.name, at);
  }

  void check_fair_links() {
    double fastest = 0;
    std::map<std::string, const Link*> first_of_bus;
    for (std::size_t i = 0; i < spec_.links.size(); ++i) {
      const Link& link = spec_.links[i];
      const std::string at = fmt::format("/link/{}", i);
      if (link.sharing == Sharing::fair) {
        fastest = std::max(fastest, link.bandwidth.value);
        if (link.gap != Nanoseconds{0})
          report("fair-gap", fmt::format("fair link '{}' has a gap, but transfers do not take turns on it", link.name),
                 "remove the gap, or let the link be serial", at + "/gap");
      }
      if (link.bus.empty()) continue;
      const Link& first = *first_of_bus.try_emplace(link.bus, &link).first->second;
      if ((first.sharing == Sharing::fair) != (link.sharing == Sharing::fair))
        report("fair-bus",
               fmt::format("of bus '{}', link '{}' is {} and link '{}' is {}", link.bus, first.name,
                           first.sharing == Sharing::fair ? "fair" : "not fair", link.name,
                           link.sharing == Sharing::fair ? "fair" : "not"),
               "give all links of the bus the same sharing", at + "/sharing");
      else if (link.sharing == Sharing::fair && first.bandwidth != link.bandwidth)
        report("fair-bus",
               fmt::format("links '{}' and '{}' of fair bus '{}' have different bandwidths", first.name, link.name,
                           link.bus),
               "give them one bandwidth: it is also the bus's", at + "/bandwidth");
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

  void check_egress(const Egress& egress, const std::string& at) {
    check_device_name(egress.device, at + "/device", "an egress");
    check_rate(egress.bandwidth.value, false, "bandwidth", "egress of", egress.device, at);
    check_time(egress.latency, "latency", "egress of", egress.device, at);
    check_time(egress.gap, "gap", "egress of", egress.device, at);
    if (!sending_.insert(egress.device).second)
      report("duplicate-name", fmt::format("device '{}' has two egresses", egress.device), "keep one", at + "/device");
  }

  void check_measured(const MeasuredRoute& route, const std::string& at) {
    check_device_name(route.from, at + "/from", "a measured route");
    check_device_name(route.to, at + "/to", "a measured route");
    check_rate(route.bandwidth.value, false, "bandwidth", "the measured route from", route.from, at);
    check_time(route.latency, "latency", "the measured route from", route.from, at);
  }

  void check_route(const GivenRoute& route, const std::map<std::string, std::size_t>& links, const std::string& at) {
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
        return report("broken-route",
                      fmt::format("link '{}' does not leave '{}', where the route from '{}' to '{}' stands by then",
                                  link.name, here, route.from, route.to),
                      "list the links in the order of travel", fmt::format("{}/links/{}", at, k));
      here = link.from == here ? link.to : link.from;
    }
    if (here != route.to)
      report("broken-route", fmt::format("the route from '{}' to '{}' ends at '{}'", route.from, route.to, here),
             "list the links in the order of travel", at + "/links");
  }

  void add_vertex(const std::string& name, const std::string& at, const std::string& what) {
    if (name.empty())
      report("missing-name", fmt::format("a {} has no name", what), "give each a unique name", at);
    else if (!vertices_.try_emplace(name, vertices_.size()).second)
      report("duplicate-name", fmt::format("two devices or switches are called '{}'", name), "rename one of them",
             at + "/name");
  }

  void check_vertex(const std::string& name, const std::string& at, const std::string& of) {
    if (vertices_.contains(name)) return;
    std::vector<std::string> names;
    for (const auto& [known, id] : vertices_) names.push_back(known);
    const auto close = nearest_name(name, names);
    report("unknown-device", fmt::format("{} names '{}', which is no device or switch of this cluster", of, name),
           close ? fmt::format("did you mean '{}'?", *close) : "declare it as [[device]] or [[switch]]", at);
  }

  void check_device_name(const std::string& name, const std::string& at, const std::string& of) {
    const auto known = vertices_.find(name);
    if (known != vertices_.end() && known->second < spec_.devices.size()) return;
    if (known != vertices_.end())
      return report("unknown-device", fmt::format("{} starts or ends at '{}', which is a switch", of, name),
                    "name a device", at);
    check_vertex(name, at, of);
  }

  void check_rate(double rate, bool zero_is_unknown, const char* field, const char* what, const std::string& name,
                  const std::string& at) {
    if (std::isfinite(rate) && (rate > 0 || (zero_is_unknown && rate == 0))) return;
    report("not-positive", fmt::format("the {} of {} '{}' must be more than 0", field, what, name), "",
           fmt::format("{}/{}", at, field));
  }

  void check_time(Nanoseconds time, const char* field, const char* what, const std::string& name,
                  const std::string& at) {
    if (time < Nanoseconds{0})
      report("negative-time", fmt::format("the {} of {} '{}' must be 0 or more", field, what, name), "",
             fmt::format("{}/{}", at, field));
    if (time > kLongestLatency)
      report("too-large", fmt::format("the {} of {} '{}' is over 2^42 ns (73 minutes)", field, what, name), "",
             fmt::format("{}/{}", at, field));
  }

  const ClusterSpec& spec_;
  std::vector<Finding> findings_;
  std::map<std::string, std::size_t> vertices_;
  std::set<std::string> sending_;                         // devices with an egress
  std::set<std::pair<std::string, std::string>> routed_;  // pairs with a given route
};

}  // namespace

std::optional<DeviceId> Cluster::find_device(std::string_view name) const {
  for (const DeviceId id : devices())
    if (device(id).name == name) return id;
  return std::nullopt;
}

Cluster make_cluster(ClusterSpec spec) {
  Checker checker{spec};
  if (spec.fabric) return Cluster::of_fabric(std::move(spec));
  Cluster cluster;

  // Channels: of each link its one or two directions, then buses, then egresses. An arc knows what it holds.
  struct ArcChannels {
    ChannelId own = ChannelId::none();
    ChannelId bus = ChannelId::none();
  };
  std::vector<detail::Arc> arcs;
  std::vector<ArcChannels> held;
  std::map<std::string, ChannelId> buses;
  std::map<std::string, std::size_t> link_index;
  const auto add_channel = [&](Channel channel) {
    cluster.channels_.push_back(std::move(channel));
    return ChannelId{cluster.channels_.size() - 1};
  };
  for (std::size_t i = 0; i < spec.links.size(); ++i) {
    const Link& link = spec.links[i];
    link_index[link.name] = i;
    ArcChannels there, back;
    const bool fair = link.sharing == Sharing::fair;
    cluster.has_fair_channels_ = cluster.has_fair_channels_ || fair;
    const BytesPerSecond shared = fair ? link.bandwidth : BytesPerSecond{};
    if (link.sharing != Sharing::none && link.duplex == Duplex::full) {
      there.own = add_channel({link.name, link.from, link.to, link.gap, false, fair, shared});
      back.own = add_channel({link.name, link.to, link.from, link.gap, false, fair, shared});
    } else if (link.sharing != Sharing::none) {
      there.own = back.own = add_channel({link.name, "", "", link.gap, false, fair, shared});
    }
    const std::size_t from = checker.vertex(link.from), to = checker.vertex(link.to);
    arcs.push_back({from, to, i, link.latency, link.bandwidth});
    arcs.push_back({to, from, i, link.latency, link.bandwidth});
    held.push_back(there);
    held.push_back(back);
  }
  for (std::size_t i = 0; i < spec.links.size(); ++i) {
    const Link& link = spec.links[i];
    if (link.bus.empty()) continue;
    const auto known = buses.find(link.bus);
    const bool fair = link.sharing == Sharing::fair;
    const ChannelId bus =
        known != buses.end()
            ? known->second
            : add_channel({link.bus, "", "", Nanoseconds{0}, false, fair, fair ? link.bandwidth : BytesPerSecond{}});
    buses[link.bus] = bus;
    held[2 * i].bus = held[2 * i + 1].bus = bus;
  }
  // A path over further egresses is never faster than the source's own egress, its bottleneck never wider, and it has
  // more links. So where there are only egresses, each source has one route, whatever the destination.
  const bool only_egresses = spec.links.empty() && spec.routes.empty() && spec.measured.empty() &&
                             spec.egresses.size() == spec.devices.size() && !spec.egresses.empty();
  for (std::size_t i = 0; i < spec.egresses.size(); ++i) {
    const Egress& egress = spec.egresses[i];
    const std::size_t from = checker.vertex(egress.device);
    const ChannelId own = add_channel({"egress:" + egress.device, egress.device, "", egress.gap, egress.broadcast});
    if (only_egresses) continue;
    checker.check_routed(arcs.size() + spec.devices.size());
    for (std::size_t to = 0; to < spec.devices.size(); ++to) {
      if (to == from) continue;
      arcs.push_back({from, to, spec.links.size() + i, egress.latency, egress.bandwidth});
      held.push_back({own, ChannelId::none()});
    }
  }

  const std::size_t devices = spec.devices.size();
  if (!only_egresses) checker.check_routed(arcs.size());
  std::map<std::pair<std::size_t, std::size_t>, const GivenRoute*> given;
  for (const GivenRoute& route : spec.routes) given[{checker.vertex(route.from), checker.vertex(route.to)}] = &route;
  std::map<std::pair<std::size_t, std::size_t>, const MeasuredRoute*> measured;
  for (const MeasuredRoute& route : spec.measured)
    measured[{checker.vertex(route.from), checker.vertex(route.to)}] = &route;
  std::map<std::tuple<std::int64_t, double, std::uint32_t>, std::uint32_t> classes;
  const auto route_class = [&](const RouteClass& rate, std::size_t pairs) {
    const auto [known, added] = classes.try_emplace({rate.latency.count, rate.bandwidth.value, rate.curve},
                                                    static_cast<std::uint32_t>(classes.size()));
    if (added) {
      cluster.route_classes_.push_back(rate);
      cluster.route_class_sizes_.push_back(0);
    }
    cluster.route_class_sizes_[known->second] += pairs;
    return known->second;
  };
  if (only_egresses) {
    std::vector<std::size_t> egress_of(devices);
    for (std::size_t i = 0; i < devices; ++i) egress_of[checker.vertex(spec.egresses[i].device)] = i;
    cluster.routes_of_source_ = 1;
    for (std::size_t from = 0; from < devices; ++from) {
      const Egress& egress = spec.egresses[egress_of[from]];
      const auto at = static_cast<std::uint32_t>(from);
      cluster.routes_.push_back(
          {devices > 1 ? route_class({egress.latency, egress.bandwidth}, devices - 1) : 0, at, 1, at, 1});
      cluster.route_channels_.push_back(ChannelId{egress_of[from]});
      cluster.route_links_.push_back(LinkId{egress_of[from]});
    }
    cluster.spec_ = std::move(spec);
    return cluster;
  }
  cluster.routes_of_source_ = devices;
  cluster.routes_.resize(devices * devices);
  const detail::PathFinder finder{arcs, checker.vertex_count()};
  for (std::size_t from = 0; from < devices; ++from) {
    auto paths = finder.paths(from, devices);
    for (std::size_t to = 0; to < devices; ++to) {
      if (from == to) continue;
      auto& path = paths[to];
      if (const auto own = given.empty() ? given.end() : given.find({from, to}); own != given.end()) {
        path.clear();
        std::size_t at = from;
        for (const std::string& name : own->second->links) {
          const std::size_t i = link_index.at(name);
          path.push_back(arcs[2 * i].from == at ? 2 * i : 2 * i + 1);
          at = arcs[path.back()].to;
        }
      }
      if (path.empty()) {
        checker.report("missing-route",
                       fmt::format("no path of links leads from device '{}' to device '{}'", spec.devices[from].name,
                                   spec.devices[to].name),
                       "add a [[link]] between them, or a [[switch]] that both reach", fmt::format("/device/{}", from));
        continue;
      }
      auto& route = cluster.routes_[from * devices + to];
      route.first_channel = static_cast<std::uint32_t>(cluster.route_channels_.size());
      route.first_link = static_cast<std::uint32_t>(cluster.route_links_.size());
      Nanoseconds latency{0};
      BytesPerSecond bandwidth{std::numeric_limits<double>::infinity()};
      const auto hold = [&](ChannelId channel) {
        const auto first = cluster.route_channels_.begin() + route.first_channel;
        if (!channel.is_none() &&
            std::find(first, cluster.route_channels_.end(), channel) == cluster.route_channels_.end())
          cluster.route_channels_.push_back(channel);
      };
      if (cluster.route_links_.size() + path.size() > limits::kRouteLinks) {
        checker.report(
            "too-large",
            fmt::format("the routes between {} devices pass over more than {} links", devices, limits::kRouteLinks),
            "describe the machine as a [fabric], or a part of it", "");
        checker.throw_if_any();
      }
      for (const std::size_t a : path) {
        latency += arcs[a].latency;
        bandwidth = std::min(bandwidth, arcs[a].bandwidth);
        cluster.route_links_.push_back(LinkId{arcs[a].link});
        hold(held[a].own);
        hold(held[a].bus);
      }
      const auto times = measured.empty() ? measured.end() : measured.find({from, to});
      route.route_class = route_class(
          times == measured.end() ? RouteClass{latency, bandwidth}
                                  : RouteClass{times->second->latency, times->second->bandwidth, times->second->curve},
          1);
      route.channel_count = static_cast<std::uint32_t>(cluster.route_channels_.size()) - route.first_channel;
      route.link_count = static_cast<std::uint32_t>(cluster.route_links_.size()) - route.first_link;
    }
  }
  checker.throw_if_any();
  cluster.spec_ = std::move(spec);
  return cluster;
}

}  // namespace trainyard
