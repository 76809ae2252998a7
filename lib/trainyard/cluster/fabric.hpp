#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/cluster/hops.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// `serial`: one transfer at a time. `none`: transfers never wait for each other. `fair`: concurrent transfers share
/// the bandwidth as defined in simulate/model/fair_flows.hpp; such a link has no gap.
enum class Sharing { serial, none, fair };
/// Largest ratio of bandwidths in a cluster with fair links. Rates are whole numbers of units; the limit keeps the unit
/// small relative to every rate.
inline constexpr double kWidestFairRange = 1 << 20;

/// Many equal hosts on a network of two or three levels of switches, described by a few numbers: routes are computed
/// from the two devices, not stored. Devices are numbered host by host.
///
///     within a host   each device has a port to the switch of its host (such as an NVSwitch); or the devices form a
///                     torus
///     host to leaf    each network card has a link to a leaf switch; the host's devices share its cards in equal
///                     blocks, or each device has several cards
///     leaf switches   one for the same card of each of `hosts_per_leaf` hosts (Leaf::rail), or one for all cards of
///                     these hosts (Leaf::rack)
///     spine switches  each has one link to every leaf of its pod, of `hosts_per_pod` hosts; a pod has as many as a
///                     leaf has cards, divided by `oversubscription` and rounded up; none if there is one leaf
///     core switches   each has one link to spine i of every pod, for some i; for each i there are as many as a pod has
///                     leaves, divided by `core_oversubscription` and rounded up; none if there is one pod
///
/// All links are full duplex. Links from the leaves upwards are as fast as a card's. Each direction carries one
/// transfer at a time, or is shared fairly (Sharing::fair). The destination determines the spine of a transfer: the
/// cards of a leaf, by host and then by card, are assigned to the spines in turn; a transfer between pods passes the
/// spine of that number in both. The destination also determines the core: the cards of a pod that are assigned to one
/// spine, by their turn on the leaf and then by leaf, are assigned to its cores in turn. This is the static routing of
/// fat trees (Zahavi, D-Mod-K Routing Providing Non-Blocking Traffic for Shift Permutations, 2010). With one spine per
/// card of a leaf, no two cards share a link on the way down; with one core per leaf, traffic from one core continues
/// over one link. Cards on different rails also meet at a spine: no transfer hops through another device.
///
/// A device with m cards sends over all of them at once, 1 / m of the bytes from each to the same card of the other
/// device, like NCCL's channels. Such a route has m times the bandwidth and occupies the links of all m paths.
///
/// Torus. With dimensions n(1), n(2), ..., device x(1) + n(1) (x(2) + n(2) (x(3))) has a link to the next device in
/// each dimension, and the last one to the first (a dimension of size 2 has one link). A transfer travels along the
/// first dimension, then the second, then the third (dimension-order routing: Dally and Towles, Principles and
/// Practices of Interconnection Networks, 2004, 8.4.1). In each it takes the shorter way round, forwards if both are
/// equally long. It occupies all links that it passes, and each adds its latency.
struct FabricSpec {
  enum class Leaf { rail, rack };
  static constexpr std::size_t kMostDevices = limits::kDevices;
  static constexpr std::size_t kMostCards = 16;      // per device
  static constexpr std::size_t kMostDimensions = 3;  // of a torus

  std::size_t hosts = 0;
  std::size_t devices_per_host = 0;
  BytesPerSecond port_bandwidth{};  // of a port or a torus link, if a host has several devices
  Nanoseconds port_latency{};
  // The fields below, except `torus` and `sharing`, apply if there are several hosts.
  std::size_t nics_per_host = 0;  // divides devices_per_host, or is a multiple of it
  BytesPerSecond nic_bandwidth{};
  Nanoseconds nic_latency{};
  Leaf leaf = Leaf::rail;
  std::size_t hosts_per_leaf = 0;
  double oversubscription = 1;  // bandwidth of a leaf's cards over that of its links to the spines
  Nanoseconds uplink_latency{};
  std::optional<std::size_t> hosts_per_pod = {};  // a multiple of hosts_per_leaf; default: all
  double core_oversubscription = 1;               // bandwidth of a spine's leaves over that of its links to the cores
  Nanoseconds core_latency{};
  std::vector<std::size_t> torus = {};  // sizes of the dimensions, each 2 or more; replaces the switch of a host
  Sharing sharing = Sharing::serial;    // of all links; not `none`

  std::size_t device_count() const { return hosts * devices_per_host; }
  std::size_t cards_per_device() const {
    return nics_per_host > devices_per_host ? nics_per_host / devices_per_host : 1;
  }
  std::size_t devices_per_card() const {
    return nics_per_host < devices_per_host ? devices_per_host / nics_per_host : 1;
  }
  std::size_t port_links() const;
  std::size_t leaf_count() const;
  std::size_t pod_count() const;
  std::size_t spine_count() const;  // in all pods
  std::size_t core_count() const;

  friend bool operator==(const FabricSpec&, const FabricSpec&) = default;
};

namespace detail {

/// An error of a time in a cluster: the finding's code, and its message after the name of the time.
struct TimeError {
  const char *code, *message;
};
/// None if the time is from 0 to 2^42 ns: no path of a million links overflows.
inline std::optional<TimeError> error_of(Nanoseconds time) {
  if (time < Nanoseconds{0}) return TimeError{"negative-time", "must be 0 or more"};
  if (time > Nanoseconds{kLongestTime.count >> 20}) return TimeError{"too-large", "is over 2^42 ns (73 minutes)"};
  return std::nullopt;
}

/// All errors of a fabric for a cluster of `devices` devices, with pointers such as "/fabric/hosts".
std::vector<Finding> check_fabric(const FabricSpec& spec, std::size_t devices);

/// The routes of a fabric whose specification has been checked. Link i has the channels 2 i, away from the devices (or
/// forwards in a torus), and 2 i + 1, towards them.
class FabricRoutes {
 public:
  explicit FabricRoutes(const FabricSpec& spec);

  /// Number of ways. The way between two devices is the kind of their route: within a host (in a torus one way per
  /// number of links passed: one, two, ...), over a leaf, over a spine, over a core.
  std::size_t way_count() const { return host_ways_ + (cores_ > 0 ? 3 : 2); }
  /// The way between two devices, from != to.
  std::size_t way(std::size_t from, std::size_t to) const {
    const Seat &a = seats_[from], &b = seats_[to];
    if (a.host == b.host) return torus_.empty() ? 0 : distance(from, to) - 1;
    return host_ways_ + (a.uplinks == b.uplinks ? 0 : a.pod == b.pod ? 1 : 2);
  }
  /// Identifies the leaf through which the device reaches other hosts. All devices of a leaf reach a given device
  /// outside their hosts by the same way.
  std::size_t leaf(std::size_t device) const { return seats_[device].uplinks; }
  /// Numbers of the route's channels, in path order. With several cards, the paths of the cards follow one another.
  template <class Number>
  Hops<Number> channels(std::size_t from, std::size_t to) const {
    const auto number = [](std::size_t channel) { return Number(static_cast<std::uint32_t>(channel)); };
    const Seat &a = seats_[from], &b = seats_[to];
    if (a.host == b.host && torus_.empty()) return {number(2 * from), number(2 * to + 1)};
    if (a.host != b.host && cards_ == 1) {
      if (a.uplinks == b.uplinks) return {number(2 * a.nic), number(2 * b.nic + 1)};
      if (a.pod == b.pod)
        return {number(2 * a.nic), number(2 * (a.uplinks + b.spine)), number(2 * (b.uplinks + b.spine) + 1),
                number(2 * b.nic + 1)};
    }
    Hops<Number> all;
    const auto pass = [&](std::size_t channel) { all.push_back(number(channel)); };
    if (a.host == b.host)
      walk_torus(from, to, pass);
    else
      for (std::size_t card = 0; card < cards_; ++card) {
        pass(2 * (a.nic + card));
        if (a.uplinks != b.uplinks) {
          const std::size_t turn = b.spine + (rail_ ? 0 : card), spine = turn % spines_;
          const std::size_t leaf = rail_ ? card * spines_ : 0;
          pass(2 * (a.uplinks + leaf + spine));
          if (a.pod != b.pod) {
            const std::size_t core = (b.core + (rail_ ? card : turn / spines_ * leaves_)) % cores_;
            pass(2 * core_link(a.pod, spine, core));
            pass(2 * core_link(b.pod, spine, core) + 1);
          }
          pass(2 * (b.uplinks + leaf + spine) + 1);
        }
        pass(2 * (b.nic + card) + 1);
      }
    return all;
  }
  /// Number of channels of the longest route.
  std::size_t most_channels() const;

  Nanoseconds latency(std::size_t way) const;
  BytesPerSecond bandwidth(std::size_t way) const;
  /// Number of ordered pairs of devices, by way.
  std::vector<std::size_t> pair_counts() const;

  struct LinkEnds {
    std::string from, to;
    BytesPerSecond bandwidth;
  };
  /// All links in order, by their ends: device to host ("host0") or to the next device of a torus; device, or card
  /// ("nic0", unless each device has one card), to leaf ("leaf0"); leaf to spine ("spine0"); spine to core ("core0").
  /// Each kind is numbered pod by pod; cores are numbered by the spines of a pod.
  std::vector<LinkEnds> links(const std::vector<std::string>& device_names) const;

 private:
  struct Seat {
    std::uint32_t host = 0;
    std::uint32_t nic = 0;      // the link of the device's first card
    std::uint32_t uplinks = 0;  // first link from that card's leaf to a spine
    std::uint32_t spine = 0;    // transfers to that card pass this spine of its pod
    std::uint32_t pod = 0;
    std::uint32_t core = 0;  // transfers to that card from another pod pass this core of the spine
  };
  struct Dimension {
    std::size_t size;
    std::size_t stride;  // distance in device numbers between neighbours
    std::size_t first;   // number of the first link of the dimension, within a host
    std::size_t at(std::size_t device) const { return device / stride % size; }
    /// Number of the link from the device to the next one.
    std::size_t link(std::size_t device) const {
      return first + (size > 2 ? device : device / (2 * stride) * stride + device % stride);
    }
  };

  std::size_t core_link(std::size_t pod, std::size_t spine, std::size_t core) const {
    return first_core_link_ + (pod * spines_ + spine) * cores_ + core;
  }
  std::size_t distance(std::size_t from, std::size_t to) const {
    std::size_t links = 0;
    for (const Dimension& d : torus_) {
      const std::size_t ahead = (d.at(to) + d.size - d.at(from)) % d.size;
      links += ahead < d.size - ahead ? ahead : d.size - ahead;
    }
    return links;
  }
  template <class Pass>
  void walk_torus(std::size_t from, std::size_t to, const Pass& pass) const {
    const std::size_t host = from / spec_.devices_per_host, links = host * (spec_.port_links() / spec_.hosts);
    std::size_t at = from % spec_.devices_per_host;
    for (const Dimension& d : torus_) {
      const std::size_t end = d.at(to % spec_.devices_per_host), line = at - d.at(at) * d.stride;
      const std::size_t ahead = (end + d.size - d.at(at)) % d.size;
      const bool forwards = d.size == 2 ? d.at(at) == 0 : 2 * ahead <= d.size;
      while (d.at(at) != end) {
        const std::size_t next = line + (d.at(at) + (forwards ? 1 : d.size - 1)) % d.size * d.stride;
        pass(2 * (links + d.link(forwards ? at : next)) + (forwards ? 0 : 1));
        at = next;
      }
    }
  }

  FabricSpec spec_;
  bool rail_ = true;
  std::size_t cards_ = 1;                // per device
  std::size_t leaves_ = 0, spines_ = 0;  // per pod
  std::size_t cores_ = 0;                // per spine
  std::size_t first_core_link_ = 0;
  std::size_t host_ways_ = 1;
  std::vector<Dimension> torus_;
  std::vector<Seat> seats_;  // by device
};

}  // namespace detail
}  // namespace trainyard
