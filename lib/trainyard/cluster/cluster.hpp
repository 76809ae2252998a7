#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cluster/fabric.hpp"
#include "trainyard/cluster/hops.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

namespace detail {
class ClusterRoutes;
}

/// A processor that runs ops.
struct Device {
  std::string name;
  std::string kind = {};              // a known kind ("V100-SXM2-16GB"), or empty
  std::string device_class = {};      // "gpu", "cpu"
  std::optional<Bytes> memory = {};   // capacity; none: unlimited
  FlopsPerSecond peak{};              // 0: unknown
  BytesPerSecond memory_bandwidth{};  // 0: unknown
  Nanoseconds launch_overhead{};      // added to every op time that the graph does not give
  Nanoseconds gap{};                  // idle time after each op of non-zero duration
  std::string part_of = {};           // name of the GPU that it is a part of; the parts share the memory bandwidth

  friend bool operator==(const Device&, const Device&) = default;
};

enum class Duplex { full, half };

/// A link between two vertices (devices or switches), as declared in the cluster file.
struct Link {
  std::string name = {};  // empty: make_cluster() calls it FROM-TO
  std::string from, to;
  BytesPerSecond bandwidth{};
  Nanoseconds latency{};
  Nanoseconds gap{};
  Duplex duplex = Duplex::full;
  Sharing sharing = Sharing::serial;
  // All links of one bus share one additional serialized resource. If all of them are fair and equally fast, it is one
  // fair resource of that bandwidth. A fair link can share a bus only with such links.
  std::string bus = {};

  friend bool operator==(const Link&, const Link&) = default;
};

/// A one-way link from one device to all others.
struct Egress {
  std::string device;
  BytesPerSecond bandwidth{};
  Nanoseconds latency{};
  Nanoseconds gap{};
  bool broadcast = false;  // one transfer per tensor serves all other devices that need it

  friend bool operator==(const Egress&, const Egress&) = default;
};

/// A route given by the author in place of the best path: link names in order.
struct GivenRoute {
  std::string from, to;
  std::vector<std::string> links;

  friend bool operator==(const GivenRoute&, const GivenRoute&) = default;
};

/// Measured latency and bandwidth between two devices. They replace those of the links; transfers still occupy the
/// links.
struct MeasuredRoute {
  std::string from, to;
  Nanoseconds latency{};
  BytesPerSecond bandwidth{};
  std::uint32_t curve = 0;  // for the cost model: number of a measured curve, from 1; 0: latency and bandwidth only

  friend bool operator==(const MeasuredRoute&, const MeasuredRoute&) = default;
};

/// The contents of a cluster file, in its order; make_cluster turns it into a Cluster.
struct ClusterSpec {
  std::string name = {};
  std::vector<Device> devices = {};
  std::vector<std::string> switches = {};
  std::vector<Link> links = {};
  std::vector<Egress> egresses = {};
  std::vector<GivenRoute> routes = {};
  std::vector<MeasuredRoute> measured = {};  // a file's, then a calibration's; the last one of a pair counts
  std::optional<FabricSpec> fabric = {};     // joins all devices, in place of switches, links, egresses and routes

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

/// A shared resource: one direction of a full-duplex link, both directions of a half-duplex one, a bus, or an egress.
/// It carries one transfer at a time. A fair channel carries any number and divides its bandwidth among them.
struct Channel {
  std::string name;      // name of the link, bus or egress ("egress:gpu0")
  std::string from, to;  // ends of the direction; empty for a half-duplex link and a bus, `to` empty for an egress
  Nanoseconds gap{};
  bool broadcast = false;
  bool fair = false;
  BytesPerSecond bandwidth{};  // of a fair channel: total over its transfers

  friend bool operator==(const Channel&, const Channel&) = default;
};

/// The path from one device to another. A transfer occupies all its serial channels at once and shares the fair ones.
struct Route {
  Nanoseconds latency;       // the sum over the route's links
  BytesPerSecond bandwidth;  // the smallest of the route's links
  Hops<ChannelId> channels;  // distinct, in path order; like `links`, valid while the cluster lives
  Hops<LinkId> links;        // egress links are numbered after declared links; FabricRoutes numbers those of a fabric
  std::uint32_t curve = 0;   // MeasuredRoute::curve
};

/// The values that determine how long a transfer takes on a route.
struct RouteClass {
  Nanoseconds latency;
  BytesPerSecond bandwidth;
  std::uint32_t curve = 0;  // MeasuredRoute::curve

  friend bool operator==(const RouteClass&, const RouteClass&) = default;
};

/// Devices, channels, and the route of each ordered pair of devices. Immutable.
class Cluster {
 public:
  const ClusterSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  std::size_t device_count() const { return spec_.devices.size(); }
  IdRange<DeviceId> devices() const { return IdRange<DeviceId>{device_count()}; }
  const Device& device(DeviceId id) const { return spec_.devices[id.index()]; }
  std::size_t channel_count() const { return channels_.size(); }
  IdRange<ChannelId> channels() const { return IdRange<ChannelId>{channel_count()}; }
  const Channel& channel(ChannelId id) const { return channels_[id]; }
  bool has_fair_channels() const { return has_fair_channels_; }

  /// from != to. Every ordered pair of devices has a route.
  Route route(DeviceId from, DeviceId to) const {
    if (fabric_) return computed_route(from, to);
    const auto& stored = routes_[pair(from, to)];
    const RouteClass& rate = route_classes_[stored.route_class];
    return {rate.latency, rate.bandwidth,
            Hops<ChannelId>{std::span{route_channels_}.subspan(stored.first_channel, stored.channel_count)},
            Hops<LinkId>{std::span{route_links_}.subspan(stored.first_link, stored.link_count)}, rate.curve};
  }
  /// Routes of one class have the same latency, bandwidth and curve. Classes are numbered in order of first appearance
  /// over the sorted pairs (from, to). from != to.
  std::uint32_t route_class(DeviceId from, DeviceId to) const {
    if (fabric_) return class_of_way_[fabric_->way(from.index(), to.index())];
    return routes_[pair(from, to)].route_class;
  }
  std::span<const RouteClass> route_classes() const { return route_classes_; }
  /// Number of ordered pairs of devices in each class.
  std::span<const std::size_t> route_class_sizes() const { return route_class_sizes_; }

  /// The routes of a fabric, which are not stored by pair; null if the cluster has no fabric.
  const detail::FabricRoutes* fabric_routes() const { return fabric_ ? &*fabric_ : nullptr; }
  /// Whether all routes from a device are the same: the cluster has only egresses.
  bool one_route_per_source() const { return routes_of_source_ == 1; }
  std::optional<DeviceId> find_device(std::string_view name) const;

  friend bool operator==(const Cluster& a, const Cluster& b) { return a.spec_ == b.spec_; }

 private:
  friend Cluster make_cluster(ClusterSpec);
  friend detail::ClusterRoutes;

  struct StoredRoute {
    std::uint32_t route_class = 0;
    std::uint32_t first_channel = 0, channel_count = 0, first_link = 0, link_count = 0;
  };

  static Cluster of_fabric(ClusterSpec spec);
  Route computed_route(DeviceId from, DeviceId to) const;
  std::size_t pair(DeviceId from, DeviceId to) const {
    return from.index() * routes_of_source_ + (routes_of_source_ == 1 ? 0 : to.index());
  }

  ClusterSpec spec_;
  IdMap<ChannelId, Channel> channels_;
  bool has_fair_channels_ = false;
  std::size_t routes_of_source_ = 0;  // 1 if all destinations of a source share one route, else the number of devices
  std::vector<StoredRoute> routes_;   // source x destination, or one per source
  std::vector<RouteClass> route_classes_;
  std::vector<std::size_t> route_class_sizes_;
  std::vector<ChannelId> route_channels_;
  std::vector<LinkId> route_links_;
  std::optional<detail::FabricRoutes> fabric_;  // if set, routes_ is empty
  std::vector<std::uint32_t> class_of_way_;
};

/// `count` devices that differ only in their names: the class of `like` followed by a number from 0.
std::vector<Device> numbered_devices(const Device& like, std::size_t count);

/// Checks the specification and computes the route of each ordered pair of devices: the path of least total latency,
/// then largest bottleneck bandwidth, then fewest links, then lowest link indices, unless a route is given or a fabric
/// computes it.
///
/// Throws InputError with pointers such as "/link/2/bandwidth": no devices ("empty-cluster"), missing or repeated
/// names, unknown vertices, a bandwidth that is not positive, negative latency or gap, a pair without a route
/// ("missing-route"), a given route that does not connect its ends ("broken-route"), a fabric together with links
/// ("fabric"), or a fabric whose numbers are not positive or do not fit its devices ("fabric-size"). For fair links or
/// a fair fabric: a gap ("fair-gap"), a bus whose links are not all fair and equally fast ("fair-bus"), a bandwidth
/// smaller than that of the fastest fair link by more than a factor of kWidestFairRange ("fair-range").
Cluster make_cluster(ClusterSpec spec);

}  // namespace trainyard
