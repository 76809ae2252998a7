#include <algorithm>
#include <cstdint>
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
  const bool fair = cluster.has_fair_channels_ = spec.fabric->sharing == Sharing::fair && spec.devices.size() > 1;
  for (const FabricRoutes::LinkEnds& link : fabric.links(names)) {
    Channel channel{.name = link.from + "-" + link.to, .from = link.from, .to = link.to, .fair = fair};
    if (fair) channel.bandwidth = link.bandwidth;
    cluster.channels_.push_back(channel);
    std::swap(channel.from, channel.to);
    cluster.channels_.push_back(std::move(channel));
  }
  // Every way in the fabric also occurs from the first device.
  const auto pairs = fabric.pair_counts();
  std::vector<std::uint8_t> seen(fabric.way_count(), 0);
  cluster.class_of_way_.assign(fabric.way_count(), 0);
  for (std::size_t to = 1; to < spec.devices.size(); ++to) {
    const std::size_t way = fabric.way(0, to);
    if (std::exchange(seen[way], std::uint8_t{1}) != 0) continue;
    const RouteClass rate{fabric.latency(way), fabric.bandwidth(way)};
    const auto known = std::ranges::find(cluster.route_classes_, rate);
    cluster.class_of_way_[way] = static_cast<std::uint32_t>(known - cluster.route_classes_.begin());
    if (known == cluster.route_classes_.end()) {
      cluster.route_classes_.push_back(rate);
      cluster.route_class_sizes_.push_back(0);
    }
    cluster.route_class_sizes_[cluster.class_of_way_[way]] += pairs[way];
  }
  cluster.spec_ = std::move(spec);
  return cluster;
}

Route Cluster::computed_route(DeviceId from, DeviceId to) const {
  const RouteClass& rate = route_classes_[route_class(from, to)];
  Route route{rate.latency, rate.bandwidth, fabric_->channels<ChannelId>(from.index(), to.index()), {}};
  for (const ChannelId channel : route.channels) route.links.push_back(LinkId{channel.index() / 2});
  return route;
}

}  // namespace trainyard
