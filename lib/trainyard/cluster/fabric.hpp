#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/cluster/hops.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Many equal hosts on a two-level network, by a handful of numbers: routes are computed from the two devices, not
/// stored. Devices are numbered host by host.
///
///     in a host       each device has a port to the switch of its host (an NVSwitch, say)
///     from a host     each of its network cards has a link to a leaf switch; its devices share them in equal blocks
///     leaf switches   one for the same card of each of `hosts_per_leaf` hosts (Leaf::rail), or one for all cards of
///                     these hosts (Leaf::rack)
///     spine switches  each has one link to every leaf, as fast as a card's; there are as many as a leaf has cards,
///                     over `oversubscription`, rounded up; none where there is one leaf
///
/// All links are full duplex and carry one transfer at a time each way. Which spine a transfer passes, its destination
/// says: the cards of a leaf, by host and then by card, take the spines in turn. This is the static routing of fat
/// trees (Zahavi, D-Mod-K Routing Providing Non-Blocking Traffic for Shift Permutations, 2010): with a spine for each
/// card of a leaf, no two cards share a link on the way down. Cards on different rails meet at a spine too: no transfer
/// hops through another device.
struct FabricSpec {
  enum class Leaf { rail, rack };
  static constexpr std::size_t kMostDevices = limits::kDevices;

  std::size_t hosts = 0;
  std::size_t devices_per_host = 0;
  BytesPerSecond port_bandwidth{};  // where there are several devices to a host
  Nanoseconds port_latency{};
  // The rest counts where there are several hosts.
  std::size_t nics_per_host = 0;  // divides devices_per_host
  BytesPerSecond nic_bandwidth{};
  Nanoseconds nic_latency{};
  Leaf leaf = Leaf::rail;
  std::size_t hosts_per_leaf = 0;
  double oversubscription = 1;  // bandwidth of a leaf's cards over that of its links to the spines
  Nanoseconds uplink_latency{};

  std::size_t device_count() const { return hosts * devices_per_host; }
  std::size_t leaf_count() const;
  std::size_t spine_count() const;

  friend bool operator==(const FabricSpec&, const FabricSpec&) = default;
};

namespace detail {

/// Everything wrong with a fabric of so many devices, with pointers such as "/fabric/hosts".
std::vector<Finding> check_fabric(const FabricSpec& spec, std::size_t devices);

/// The routes of a fabric whose specification has been checked. Link i has the channels 2 i, away from the devices, and
/// 2 i + 1, towards them.
class FabricRoutes {
 public:
  explicit FabricRoutes(const FabricSpec& spec);

  /// The way between two devices: by the smallest part of the fabric that they share.
  enum class Way : std::uint8_t { host, leaf, spine };
  static constexpr std::size_t kWays = 3;
  /// from != to.
  Way way(std::size_t from, std::size_t to) const {
    const Seat &a = seats_[from], &b = seats_[to];
    return a.host == b.host ? Way::host : a.uplinks == b.uplinks ? Way::leaf : Way::spine;
  }
  /// The numbers of the route's channels, in path order.
  template <class Number>
  Hops<Number> channels(std::size_t from, std::size_t to) const {
    const auto number = [](std::size_t channel) { return Number(static_cast<std::uint32_t>(channel)); };
    const Seat &a = seats_[from], &b = seats_[to];
    if (a.host == b.host) return {number(2 * from), number(2 * to + 1)};
    if (a.uplinks == b.uplinks) return {number(2 * a.nic), number(2 * b.nic + 1)};
    return {number(2 * a.nic), number(2 * (a.uplinks + b.spine)), number(2 * (b.uplinks + b.spine) + 1),
            number(2 * b.nic + 1)};
  }

  Nanoseconds latency(Way way) const;
  BytesPerSecond bandwidth(Way way) const;
  /// Ordered pairs of devices, by way.
  std::array<std::size_t, kWays> pair_counts() const;

  struct LinkEnds {
    std::string from, to;
  };
  /// Link names, in order: device to host ("host0"), device or card ("nic0", where devices share it) to leaf
  /// ("leaf0"), leaf to spine ("spine0").
  std::vector<LinkEnds> links(const std::vector<std::string>& device_names) const;

 private:
  struct Seat {
    std::uint32_t host = 0;
    std::uint32_t nic = 0;      // the link of its card
    std::uint32_t uplinks = 0;  // the first link of its leaf to a spine
    std::uint32_t spine = 0;    // transfers to it pass this spine
  };
  FabricSpec spec_;
  std::vector<Seat> seats_;  // by device
};

}  // namespace detail
}  // namespace trainyard
