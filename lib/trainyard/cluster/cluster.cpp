#include "trainyard/cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "trainyard/cluster/cluster_checker.hpp"
#include "trainyard/cluster/routes.hpp"
#include "trainyard/core/limits.hpp"

namespace trainyard {

std::optional<DeviceId> Cluster::find_device(std::string_view name) const {
  for (const DeviceId id : devices())
    if (device(id).name == name) return id;
  return std::nullopt;
}

namespace detail {

/// Builds the channels and routes of a cluster whose specification has been checked.
class ClusterRoutes {
 public:
  ClusterRoutes(const ClusterSpec& spec, ClusterChecker& checker, Cluster& cluster)
      : spec_(spec), checker_(checker), cluster_(cluster), devices_(spec.devices.size()) {}

  void build() {
    add_links();
    add_buses();
    if (only_egresses()) {
      for (const Egress& egress : spec_.egresses) add_egress_channel(egress);
      return route_by_egress();
    }
    for (std::size_t i = 0; i < spec_.egresses.size(); ++i) add_egress(i);
    checker_.check_routed(arcs_.size());
    cluster_.routes_of_source_ = devices_;
    cluster_.routes_.resize(devices_ * devices_);
    for (const GivenRoute& route : spec_.routes) given_[ends(route)] = &route;
    for (const MeasuredRoute& route : spec_.measured) measured_[ends(route)] = &route;
    const PathFinder finder{arcs_, checker_.vertex_count()};
    for (std::size_t from = 0; from < devices_; ++from) {
      auto paths = gives_all_routes(from) ? Paths(devices_) : finder.paths(from, devices_);
      for (std::size_t to = 0; to < devices_; ++to)
        if (from != to) route(from, to, std::move(paths[to]));
    }
    checker_.throw_if_any();
  }

 private:
  using Pair = std::pair<std::size_t, std::size_t>;
  using Paths = std::vector<std::vector<std::size_t>>;
  /// Channels that a transfer over one direction of a link occupies.
  struct ArcChannels {
    ChannelId own = ChannelId::none();
    ChannelId bus = ChannelId::none();
  };

  /// Whether every route from this device is given, so that no paths are needed.
  bool gives_all_routes(std::size_t from) const {
    std::size_t to = 0;
    while (to < devices_ && (to == from || given_.contains({from, to}))) ++to;
    return to == devices_;
  }

  ChannelId add_channel(Channel channel) {
    cluster_.channels_.push_back(std::move(channel));
    return ChannelId{cluster_.channels_.size() - 1};
  }

  /// Adds one channel for each direction of a full-duplex link, and one for both directions of a half-duplex link.
  void add_links() {
    for (std::size_t i = 0; i < spec_.links.size(); ++i) {
      const Link& link = spec_.links[i];
      link_index_[link.name] = i;
      ArcChannels there, back;
      const bool fair = link.sharing == Sharing::fair;
      cluster_.has_fair_channels_ = cluster_.has_fair_channels_ || fair;
      const BytesPerSecond shared = fair ? link.bandwidth : BytesPerSecond{};
      if (link.sharing != Sharing::none && link.duplex == Duplex::full) {
        there.own = add_channel({link.name, link.from, link.to, link.gap, false, fair, shared});
        back.own = add_channel({link.name, link.to, link.from, link.gap, false, fair, shared});
      } else if (link.sharing != Sharing::none) {
        there.own = back.own = add_channel({link.name, "", "", link.gap, false, fair, shared});
      }
      const std::size_t from = checker_.vertex(link.from), to = checker_.vertex(link.to);
      arcs_.push_back({from, to, i, link.latency, link.bandwidth});
      arcs_.push_back({to, from, i, link.latency, link.bandwidth});
      held_.push_back(there);
      held_.push_back(back);
    }
  }

  void add_buses() {
    std::map<std::string, ChannelId> buses;
    for (std::size_t i = 0; i < spec_.links.size(); ++i) {
      const Link& link = spec_.links[i];
      if (link.bus.empty()) continue;
      const bool fair = link.sharing == Sharing::fair;
      if (!buses.contains(link.bus))
        buses[link.bus] =
            add_channel({link.bus, "", "", Nanoseconds{0}, false, fair, fair ? link.bandwidth : BytesPerSecond{}});
      held_[2 * i].bus = held_[2 * i + 1].bus = buses[link.bus];
    }
  }

  ChannelId add_egress_channel(const Egress& egress) {
    return add_channel({"egress:" + egress.device, egress.device, "", egress.gap, egress.broadcast});
  }

  void add_egress(std::size_t i) {
    const Egress& egress = spec_.egresses[i];
    const std::size_t from = checker_.vertex(egress.device);
    const ChannelId own = add_egress_channel(egress);
    checker_.check_routed(arcs_.size() + devices_);
    for (std::size_t to = 0; to < devices_; ++to) {
      if (to == from) continue;
      arcs_.push_back({from, to, spec_.links.size() + i, egress.latency, egress.bandwidth});
      held_.push_back({own, ChannelId::none()});
    }
  }

  /// A path over further egresses is never faster than the source's own egress, its bottleneck is never wider, and it
  /// has more links. So if there are only egresses, each source has one route for all destinations.
  bool only_egresses() const {
    return spec_.links.empty() && spec_.routes.empty() && spec_.measured.empty() && spec_.egresses.size() == devices_ &&
           devices_ > 0;
  }

  void route_by_egress() {
    std::vector<std::size_t> egress_of(devices_);
    for (std::size_t i = 0; i < devices_; ++i) egress_of[checker_.vertex(spec_.egresses[i].device)] = i;
    cluster_.routes_of_source_ = 1;
    for (std::size_t from = 0; from < devices_; ++from) {
      const Egress& egress = spec_.egresses[egress_of[from]];
      const auto at = static_cast<std::uint32_t>(from);
      cluster_.routes_.push_back(
          {devices_ > 1 ? route_class({egress.latency, egress.bandwidth}, devices_ - 1) : 0, at, 1, at, 1});
      cluster_.route_channels_.push_back(ChannelId{egress_of[from]});
      cluster_.route_links_.push_back(LinkId{egress_of[from]});
    }
  }

  /// Stores the route over the arcs of `path`, or over those of the given route if there is one.
  void route(std::size_t from, std::size_t to, std::vector<std::size_t> path) {
    if (const auto own = given_.find({from, to}); own != given_.end()) path = arcs_of(*own->second, from);
    if (path.empty())
      return checker_.report("missing-route",
                             fmt::format("no path of links leads from device '{}' to device '{}'",
                                         spec_.devices[from].name, spec_.devices[to].name),
                             "add a [[link]] between them, or a [[switch]] that both reach",
                             fmt::format("/device/{}", from));
    check_length(path.size());
    auto& route = cluster_.routes_[from * devices_ + to];
    route.first_channel = static_cast<std::uint32_t>(cluster_.route_channels_.size());
    route.first_link = static_cast<std::uint32_t>(cluster_.route_links_.size());
    RouteClass rate{Nanoseconds{0}, BytesPerSecond{std::numeric_limits<double>::infinity()}};
    for (const std::size_t arc : path) {
      rate.latency += arcs_[arc].latency;
      rate.bandwidth = std::min(rate.bandwidth, arcs_[arc].bandwidth);
      cluster_.route_links_.push_back(LinkId{arcs_[arc].link});
      hold(held_[arc].own, route.first_channel);
      hold(held_[arc].bus, route.first_channel);
    }
    if (const auto times = measured_.find({from, to}); times != measured_.end())
      rate = {times->second->latency, times->second->bandwidth, times->second->curve};
    route.route_class = route_class(rate, 1);
    route.channel_count = static_cast<std::uint32_t>(cluster_.route_channels_.size()) - route.first_channel;
    route.link_count = static_cast<std::uint32_t>(cluster_.route_links_.size()) - route.first_link;
  }

  std::vector<std::size_t> arcs_of(const GivenRoute& route, std::size_t from) const {
    std::vector<std::size_t> path;
    for (const std::string& name : route.links) {
      const std::size_t i = link_index_.at(name);
      path.push_back(arcs_[2 * i].from == from ? 2 * i : 2 * i + 1);
      from = arcs_[path.back()].to;
    }
    return path;
  }

  void check_length(std::size_t links) {
    if (cluster_.route_links_.size() + links <= limits::kRouteLinks) return;
    checker_.report(
        "too-large",
        fmt::format("the routes between {} devices pass over more than {} links", devices_, limits::kRouteLinks),
        "describe the machine as a [fabric], or describe only a part of it", "");
    checker_.throw_if_any();
  }

  /// Adds a channel to the route being stored, unless it is already there.
  void hold(ChannelId channel, std::uint32_t first_channel) {
    const auto first = cluster_.route_channels_.begin() + first_channel;
    if (!channel.is_none() &&
        std::find(first, cluster_.route_channels_.end(), channel) == cluster_.route_channels_.end())
      cluster_.route_channels_.push_back(channel);
  }

  std::uint32_t route_class(const RouteClass& rate, std::size_t pairs) {
    const auto [known, added] = classes_.try_emplace({rate.latency.count, rate.bandwidth.value, rate.curve},
                                                     static_cast<std::uint32_t>(classes_.size()));
    if (added) {
      cluster_.route_classes_.push_back(rate);
      cluster_.route_class_sizes_.push_back(0);
    }
    cluster_.route_class_sizes_[known->second] += pairs;
    return known->second;
  }

  template <class Ends>
  Pair ends(const Ends& route) const {
    return {checker_.vertex(route.from), checker_.vertex(route.to)};
  }

  const ClusterSpec& spec_;
  ClusterChecker& checker_;
  Cluster& cluster_;
  std::size_t devices_;
  std::vector<Arc> arcs_;  // both directions of each link, then the arcs of each egress
  std::vector<ArcChannels> held_;
  std::map<std::string, std::size_t> link_index_;
  std::map<Pair, const GivenRoute*> given_;
  std::map<Pair, const MeasuredRoute*> measured_;
  std::map<std::tuple<std::int64_t, double, std::uint32_t>, std::uint32_t> classes_;
};

}  // namespace detail

Cluster make_cluster(ClusterSpec spec) {
  for (Link& link : spec.links)
    if (link.name.empty()) link.name = link.from + "-" + link.to;
  detail::ClusterChecker checker{spec};
  if (spec.fabric) return Cluster::of_fabric(std::move(spec));
  Cluster cluster;
  detail::ClusterRoutes{spec, checker, cluster}.build();
  cluster.spec_ = std::move(spec);
  return cluster;
}

}  // namespace trainyard
