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

/// `serial`: one transfer at a time. `none`: transfers never wait for each other. `fair`: many at a time, which share
/// the bandwidth as simulate/model/fair_flows.hpp says; such a link has no gap.
enum class Sharing { serial, none, fair };
/// The widest range of bandwidths in a cluster with fair links: rates are whole numbers of units, and this keeps the
/// unit small beside every rate.
inline constexpr double kWidestFairRange = 1 << 20;

/// Many equal hosts on a network of two or three levels of switches, by a handful of numbers: routes are computed from
/// the two devices, not stored. Devices are numbered host by host.
///
///     in a host       each device has a port to the switch of its host (an NVSwitch, say); or the devices are a torus
///     from a host     each of its network cards has a link to a leaf switch; its devices share them in equal blocks,
///                     or each has several
///     leaf switches   one for the same card of each of `hosts_per_leaf` hosts (Leaf::rail), or one for all cards of
///                     these hosts (Leaf::rack)
///     spine switches  each has one link to every leaf of its pod, of `hosts_per_pod` hosts; a pod has as many as
///                     a leaf has cards, over `oversubscription`, rounded up; none where there is one leaf
///     core switches   each has one link to spine i of every pod, for some i; there are as many for each i as a pod has
///                     leaves, over `core_oversubscription`, rounded up; none where there is one pod
///
/// All links are full duplex, from leaves on as fast as a card's; each way they carry one transfer at a time, or share
/// alike (Sharing::fair). Which spine a transfer passes, its destination says: the cards of a leaf, by host and then by
/// card, take the spines in turn, and between pods it passes the spine of that number in both. So it says which core:
/// the cards of a pod that take one spine, by their turn on the leaf and then by leaf, take its cores in turn. This is
/// the static routing of fat trees (Zahavi, D-Mod-K Routing Providing Non-Blocking Traffic for Shift Permutations,
/// 2010): with a spine for each card of a leaf, no two cards share a link on the way down; with a core for each leaf,
/// what comes down from a core goes on over one link.
/// Cards on different rails meet at a spine too: no transfer hops through another device.
///
/// A device with m cards sends over all of them at once, a part of 1 / m from each to the same card of the other, as
/// NCCL's channels do: a route of m times the bandwidth that holds the links of m ways.
///
/// Torus. With dimensions n(1), n(2), ..., device x(1) + n(1) (x(2) + n(2) (x(3))) has a link to the next one in each
/// dimension, the last to the first (two in a dimension have one link). A transfer goes along the first dimension, then
/// the second, then the third (dimension-order routing: Dally and Towles, Principles and Practices of Interconnection
/// Networks, 2004, 8.4.1), the shorter way round, forwards where both are as long; it holds all links that it passes,
/// and each adds its latency.
struct FabricSpec {
  enum class Leaf { rail, rack };
  static constexpr std::size_t kMostDevices = limits::kDevices;
  static constexpr std::size_t kMostCards = 16;      // of a device
  static constexpr std::size_t kMostDimensions = 3;  // of a torus

  std::size_t hosts = 0;
  std::size_t devices_per_host = 0;
  BytesPerSecond port_bandwidth{};  // of a port or a link of the torus, where there are several devices to a host
  Nanoseconds port_latency{};
  // The rest counts where there are several hosts.
  std::size_t nics_per_host = 0;  // divides devices_per_host, or is a multiple of it
  BytesPerSecond nic_bandwidth{};
  Nanoseconds nic_latency{};
  Leaf leaf = Leaf::rail;
  std::size_t hosts_per_leaf = 0;
  double oversubscription = 1;  // bandwidth of a leaf's cards over that of its links to the spines
  Nanoseconds uplink_latency{};
  std::optional<std::size_t> hosts_per_pod = {};  // a multiple of hosts_per_leaf; all where it is left out
  double core_oversubscription = 1;               // bandwidth of a spine's leaves over that of its links to the cores
  Nanoseconds core_latency{};
  std::vector<std::size_t> torus = {};  // of a host's devices, in place of its switch: each 2 or more
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
  std::size_t spine_count() const;  // of all pods
  std::size_t core_count() const;

  friend bool operator==(const FabricSpec&, const FabricSpec&) = default;
};

namespace detail {

/// Everything wrong with a fabric of so many devices, with pointers such as "/fabric/hosts".
std::vector<Finding> check_fabric(const FabricSpec& spec, std::size_t devices);

/// The routes of a fabric whose specification has been checked. Link i has the channels 2 i, away from the devices (or
/// forwards in a torus), and 2 i + 1, towards them.
class FabricRoutes {
 public:
  explicit FabricRoutes(const FabricSpec& spec);

  /// The way between two devices: within a host (of a torus, by the links that are passed: one, two, ...), over a leaf,
  /// over a spine, over a core.
  std::size_t way_count() const { return host_ways_ + (cores_ > 0 ? 3 : 2); }
  /// from != to.
  std::size_t way(std::size_t from, std::size_t to) const {
    const Seat &a = seats_[from], &b = seats_[to];
    if (a.host == b.host) return torus_.empty() ? 0 : distance(from, to) - 1;
    return host_ways_ + (a.uplinks == b.uplinks ? 0 : a.pod == b.pod ? 1 : 2);
  }
  /// Where it reaches those outside of its host from: from one leaf all ways there are the same.
  std::size_t leaf(std::size_t device) const { return seats_[device].uplinks; }
  /// The numbers of the route's channels, in path order: of several cards the way of one after that of another.
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
  /// Channels of the longest route.
  std::size_t most_channels() const;

  Nanoseconds latency(std::size_t way) const;
  BytesPerSecond bandwidth(std::size_t way) const;
  /// Ordered pairs of devices, by way.
  std::vector<std::size_t> pair_counts() const;

  struct LinkEnds {
    std::string from, to;
    BytesPerSecond bandwidth;
  };
  /// Links in order, by their ends: device to host ("host0") or to the next device of a torus, device or card ("nic0",
  /// where not each device has one) to leaf ("leaf0"), leaf to spine ("spine0"), spine to core ("core0"), each numbered
  /// pod by pod; cores by the spines of a pod.
  std::vector<LinkEnds> links(const std::vector<std::string>& device_names) const;

 private:
  struct Seat {
    std::uint32_t host = 0;
    std::uint32_t nic = 0;      // the link of its card, or of the first of them
    std::uint32_t uplinks = 0;  // the first link of that card's leaf to a spine
    std::uint32_t spine = 0;    // transfers to that card pass this spine of its pod
    std::uint32_t pod = 0;
    std::uint32_t core = 0;  // and this core of the spine, from another pod
  };
  struct Dimension {
    std::size_t size;
    std::size_t stride;  // between neighbours
    std::size_t first;   // of its links, within a host
    std::size_t at(std::size_t device) const { return device / stride % size; }
    /// The link from the device to the next one.
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
  std::size_t cards_ = 1;                // of a device
  std::size_t leaves_ = 0, spines_ = 0;  // of a pod
  std::size_t cores_ = 0;                // of a spine
  std::size_t first_core_link_ = 0;
  std::size_t host_ways_ = 1;
  std::vector<Dimension> torus_;
  std::vector<Seat> seats_;  // by device
};

}  // namespace detail
}  // namespace trainyard
