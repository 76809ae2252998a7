#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

using detail::FabricRoutes;

std::vector<Device> numbered_devices(const Device& like, std::size_t count) {
  std::vector<Device> devices(count, like);
  for (std::size_t i = 0; i < count; ++i) devices[i].name = like.device_class + std::to_string(i);
  return devices;
}

Cluster Cluster::of_fabric(ClusterSpec spec) {
  Cluster cluster;
  FabricRoutes& fabric = cluster.fabric_.emplace(*spec.fabric);
  std::vector<std::string> names;
  for (const Device& device : spec.devices) names.push_back(device.name);
  for (const FabricRoutes::LinkEnds& link : fabric.links(names)) {
    const std::string name = link.from + "-" + link.to;
    cluster.channels_.push_back({.name = name, .from = link.from, .to = link.to});
    cluster.channels_.push_back({.name = name, .from = link.to, .to = link.from});
  }
  // Every way that there is leads from the first device too.
  const auto pairs = fabric.pair_counts();
  std::array<bool, FabricRoutes::kWays> seen{};
  for (std::size_t to = 1; to < spec.devices.size(); ++to) {
    const FabricRoutes::Way way = fabric.way(0, to);
    const auto at = static_cast<std::size_t>(way);
    if (std::exchange(seen[at], true)) continue;
    const RouteClass rate{fabric.latency(way), fabric.bandwidth(way)};
    const auto known = std::ranges::find(cluster.route_classes_, rate);
    cluster.class_of_way_[at] = static_cast<std::uint32_t>(known - cluster.route_classes_.begin());
    if (known == cluster.route_classes_.end()) {
      cluster.route_classes_.push_back(rate);
      cluster.route_class_sizes_.push_back(0);
    }
    cluster.route_class_sizes_[cluster.class_of_way_[at]] += pairs[at];
  }
  cluster.spec_ = std::move(spec);
  return cluster;
}

Route Cluster::computed_route(DeviceId from, DeviceId to) const {
  const auto channels = fabric_->channels<ChannelId>(from.index(), to.index());
  const RouteClass& rate = route_classes_[route_class(from, to)];
  const auto link = [&](std::size_t at) { return LinkId{channels[at].index() / 2}; };
  return {rate.latency, rate.bandwidth, channels,
          channels.size() == 2 ? Hops<LinkId>{link(0), link(1)} : Hops<LinkId>{link(0), link(1), link(2), link(3)}};
}

}  // namespace trainyard
