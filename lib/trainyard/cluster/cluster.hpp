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

/// Something that runs ops.
struct Device {
  std::string name;
  std::string kind = {};              // a known kind ("V100-SXM2-16GB"), or empty
  std::string device_class = {};      // "gpu", "cpu"
  std::optional<Bytes> memory = {};   // capacity; none: unlimited
  FlopsPerSecond peak{};              // 0: unknown
  BytesPerSecond memory_bandwidth{};  // 0: unknown
  Nanoseconds launch_overhead{};      // added to every op time that the graph does not give itself
  Nanoseconds gap{};                  // stays blocked this long after each op of non-zero duration
  std::string part_of = {};           // devices that name one GPU here share its memory, and that one's bandwidth

  friend bool operator==(const Device&, const Device&) = default;
};

enum class Duplex { full, half };

/// A link between two vertices (devices or switches), as its author declares it.
struct Link {
  std::string name = {};  // empty: make_cluster() calls it FROM-TO
  std::string from, to;
  BytesPerSecond bandwidth{};
  Nanoseconds latency{};
  Nanoseconds gap{};
  Duplex duplex = Duplex::full;
  Sharing sharing = Sharing::serial;
  // Links of one bus share one more serialized resource; or, where all of them are fair and equally fast, one fair
  // resource of that bandwidth. A fair link shares a bus with such links only.
  std::string bus = {};

  friend bool operator==(const Link&, const Link&) = default;
};

/// A one-way link from one device to every other one.
struct Egress {
  std::string device;
  BytesPerSecond bandwidth{};
  Nanoseconds latency{};
  Nanoseconds gap{};
  bool broadcast = false;  // one transfer per tensor serves all other devices that want it

  friend bool operator==(const Egress&, const Egress&) = default;
};

/// A route that the author gives instead of the best path: link names in order.
struct GivenRoute {
  std::string from, to;
  std::vector<std::string> links;

  friend bool operator==(const GivenRoute&, const GivenRoute&) = default;
};

/// Measured times from one device to another replace those of the links; transfers still hold the links.
struct MeasuredRoute {
  std::string from, to;
  Nanoseconds latency{};
  BytesPerSecond bandwidth{};
  std::uint32_t curve =
      0;  // for the cost model: which of its measured curves, from 1; 0: latency and bandwidth are all

  friend bool operator==(const MeasuredRoute&, const MeasuredRoute&) = default;
};

/// Everything a cluster file says, in its order; make_cluster turns it into a Cluster.
struct ClusterSpec {
  std::string name = {};
  std::vector<Device> devices = {};
  std::vector<std::string> switches = {};
  std::vector<Link> links = {};
  std::vector<Egress> egresses = {};
  std::vector<GivenRoute> routes = {};
  std::vector<MeasuredRoute> measured = {};  // a file's, then a calibration's; of two for one pair the last holds
  std::optional<FabricSpec> fabric = {};     // joins all devices, in place of switches, links, egresses and routes

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

/// A shared resource: one direction of a full-duplex link, both directions of a half-duplex one, a bus, or an egress.
/// It carries one transfer at a time; a fair one any number, among which it divides its bandwidth.
struct Channel {
  std::string name;      // the link's, bus's or egress's ("egress:gpu0")
  std::string from, to;  // ends of the direction; empty for a half-duplex link and a bus, `to` empty for an egress
  Nanoseconds gap{};
  bool broadcast = false;
  bool fair = false;
  BytesPerSecond bandwidth{};  // all transfers of a fair channel together

  friend bool operator==(const Channel&, const Channel&) = default;
};

/// The way of bytes from one device to another: they hold all serial `channels` at once, and share the fair ones.
struct Route {
  Nanoseconds latency;       // the sum over the route's links
  BytesPerSecond bandwidth;  // the smallest of the route's links
  Hops<ChannelId> channels;  // distinct, in path order; valid while the cluster lives, as are the links
  Hops<LinkId> links;        // egress links count on after the declared links; a fabric's are numbered by FabricRoutes
  std::uint32_t curve = 0;   // MeasuredRoute::curve
};

/// Everything that decides how long bytes take on a route, from its first channel to its last.
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
  /// Routes of one class have the same latency, bandwidth and curve. Classes are numbered in the order in which they
  /// first appear over the pairs (from, to), sorted. from != to.
  std::uint32_t route_class(DeviceId from, DeviceId to) const {
    if (fabric_) return class_of_way_[fabric_->way(from.index(), to.index())];
    return routes_[pair(from, to)].route_class;
  }
  std::span<const RouteClass> route_classes() const { return route_classes_; }
  /// Ordered pairs of devices, by class.
  std::span<const std::size_t> route_class_sizes() const { return route_class_sizes_; }

  /// The routes of a fabric, which are not stored by pair; null where there is none; and whether all routes from
  /// a device are the same (there are only egresses).
  const detail::FabricRoutes* fabric_routes() const { return fabric_ ? &*fabric_ : nullptr; }
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
  std::size_t routes_of_source_ = 0;  // 1 where all destinations of a source share one route, otherwise devices
  std::vector<StoredRoute> routes_;   // source x destination, or one for each source
  std::vector<RouteClass> route_classes_;
  std::vector<std::size_t> route_class_sizes_;
  std::vector<ChannelId> route_channels_;
  std::vector<LinkId> route_links_;
  std::optional<detail::FabricRoutes> fabric_;  // then routes_ is empty
  std::vector<std::uint32_t> class_of_way_;
};

/// Devices that differ in their names alone: the class of `like`, and a number from 0.
std::vector<Device> numbered_devices(const Device& like, std::size_t count);

/// Checks the specification and computes the routes: of each ordered pair of devices the path of least total latency,
/// then largest bottleneck bandwidth, then fewest links, then lowest link indices, unless a given route says otherwise
/// or a fabric computes it.
/// Throws InputError with pointers such as "/link/2/bandwidth": no devices ("empty-cluster"), missing or repeated
/// names, unknown vertices, a bandwidth that is not positive, negative latency or gap, a pair without a route
/// ("missing-route"), a given route that does not connect its ends ("broken-route"), a fabric beside links ("fabric"),
/// or one whose numbers are not positive or do not fit its devices ("fabric-size"). Of fair links, or a fair fabric: a
/// gap ("fair-gap"), a bus whose links are not all fair and equally fast ("fair-bus"), some bandwidth of the cluster
/// below that of the fastest fair link by more than kWidestFairRange ("fair-range").
Cluster make_cluster(ClusterSpec spec);

}  // namespace trainyard
