#include "trainyard/cluster/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard {
namespace {

constexpr Nanoseconds kLongestFabricLatency{kLongestTime.count >> 20};  // as of any link

std::size_t groups(const FabricSpec& spec) { return (spec.hosts + spec.hosts_per_leaf - 1) / spec.hosts_per_leaf; }

std::size_t nics_per_leaf(const FabricSpec& spec) {
  const std::size_t of_host = spec.leaf == FabricSpec::Leaf::rail ? 1 : spec.nics_per_host;
  return std::min(spec.hosts, spec.hosts_per_leaf) * of_host;
}

bool ports(const FabricSpec& spec) { return spec.devices_per_host > 1; }
bool network(const FabricSpec& spec) { return spec.hosts > 1; }

}  // namespace

std::size_t FabricSpec::leaf_count() const {
  if (!network(*this)) return 0;
  return groups(*this) * (leaf == Leaf::rail ? nics_per_host : 1);
}

std::size_t FabricSpec::spine_count() const {
  if (leaf_count() < 2) return 0;
  return static_cast<std::size_t>(std::ceil(static_cast<double>(nics_per_leaf(*this)) / oversubscription));
}

namespace detail {

std::vector<Finding> check_fabric(const FabricSpec& spec, std::size_t devices) {
  std::vector<Finding> findings;
  const auto report = [&](const char* code, std::string message, std::string help, const char* field) {
    findings.push_back({code, std::move(message), std::move(help), fmt::format("/fabric/{}", field), {}});
  };
  const auto positive = [&](bool good, const char* field) {
    if (!good) report("not-positive", fmt::format("the {} of the fabric must be more than 0", field), "", field);
  };
  const auto time = [&](Nanoseconds value, const char* field) {
    if (value < Nanoseconds{0})
      report("negative-time", fmt::format("the {} of the fabric must be 0 or more", field), "", field);
    if (value > kLongestFabricLatency)
      report("too-large", fmt::format("the {} of the fabric is over 2^42 ns (73 minutes)", field), "", field);
  };
  positive(spec.hosts > 0, "hosts");
  positive(spec.devices_per_host > 0, "devices_per_host");
  if (!findings.empty()) return findings;
  if (spec.hosts > FabricSpec::kMostDevices || spec.devices_per_host > FabricSpec::kMostDevices ||
      spec.device_count() > FabricSpec::kMostDevices) {
    report("fabric-size",
           fmt::format("{} hosts of {} devices are more than {} devices", spec.hosts, spec.devices_per_host,
                       FabricSpec::kMostDevices),
           "describe a part of the machine", "hosts");
    return findings;
  }
  if (devices != spec.device_count())
    report("fabric-size",
           fmt::format("{} hosts of {} devices are {}, and the cluster has {}", spec.hosts, spec.devices_per_host,
                       spec.device_count(), devices),
           "list every device, host by host", "hosts");
  if (ports(spec)) {
    positive(std::isfinite(spec.port_bandwidth.value) && spec.port_bandwidth.value > 0, "port_bandwidth");
    time(spec.port_latency, "port_latency");
  }
  if (!network(spec)) return findings;
  positive(spec.nics_per_host > 0, "nics_per_host");
  if (spec.nics_per_host > 0 && spec.devices_per_host % spec.nics_per_host != 0)
    report("fabric-size",
           fmt::format("{} devices cannot share {} network cards evenly", spec.devices_per_host, spec.nics_per_host),
           "nics_per_host divides devices_per_host", "nics_per_host");
  positive(std::isfinite(spec.nic_bandwidth.value) && spec.nic_bandwidth.value > 0, "nic_bandwidth");
  time(spec.nic_latency, "nic_latency");
  positive(spec.hosts_per_leaf > 0, "hosts_per_leaf");
  if (!(spec.oversubscription >= 1) || !std::isfinite(spec.oversubscription))
    report("fabric-size", "the oversubscription of the fabric must be 1 or more",
           "2 stands for half as many links to the spines as cards; 1 for as many", "oversubscription");
  time(spec.uplink_latency, "uplink_latency");
  return findings;
}

FabricRoutes::FabricRoutes(const FabricSpec& spec) : spec_(spec), seats_(spec.device_count()) {
  const bool rail = spec.leaf == FabricSpec::Leaf::rail;
  const std::size_t first_nic = ports(spec) ? spec.device_count() : 0;
  const std::size_t spines = spec.spine_count();
  for (std::size_t device = 0; device < seats_.size(); ++device) {
    Seat& seat = seats_[device];
    const std::size_t host = device / spec.devices_per_host;
    seat.host = static_cast<std::uint32_t>(host);
    if (!network(spec)) continue;
    const std::size_t nic = device % spec.devices_per_host * spec.nics_per_host / spec.devices_per_host;
    const std::size_t group = host / spec.hosts_per_leaf, within = host % spec.hosts_per_leaf;
    const std::size_t leaf = rail ? group * spec.nics_per_host + nic : group;
    seat.nic = static_cast<std::uint32_t>(first_nic + host * spec.nics_per_host + nic);
    // Without spines there is one leaf, and all uplinks are the same number.
    seat.uplinks = static_cast<std::uint32_t>(first_nic + spec.hosts * spec.nics_per_host + leaf * spines);
    if (spines > 0)
      seat.spine = static_cast<std::uint32_t>((rail ? within : within * spec.nics_per_host + nic) % spines);
  }
}

Nanoseconds FabricRoutes::latency(Way way) const {
  if (way == Way::host) return spec_.port_latency + spec_.port_latency;
  const Nanoseconds nics = spec_.nic_latency + spec_.nic_latency;
  return way == Way::leaf ? nics : nics + spec_.uplink_latency + spec_.uplink_latency;
}

BytesPerSecond FabricRoutes::bandwidth(Way way) const {
  return way == Way::host ? spec_.port_bandwidth : spec_.nic_bandwidth;
}

std::array<std::size_t, FabricRoutes::kWays> FabricRoutes::pair_counts() const {
  // A leaf has the same number of devices of every host on it.
  const std::size_t of_host = spec_.devices_per_host;
  const std::size_t of_host_on_leaf =
      network(spec_) && spec_.leaf == FabricSpec::Leaf::rail ? of_host / spec_.nics_per_host : of_host;
  std::array<std::size_t, kWays> counts{seats_.size() * (of_host - 1), 0, 0};
  for (std::size_t host = 0; network(spec_) && host < spec_.hosts; ++host) {
    const std::size_t first = host / spec_.hosts_per_leaf * spec_.hosts_per_leaf;
    const std::size_t on_leaf = std::min(spec_.hosts, first + spec_.hosts_per_leaf) - first;
    counts[1] += of_host * (on_leaf - 1) * of_host_on_leaf;
  }
  counts[2] = seats_.size() * (seats_.size() - 1) - counts[0] - counts[1];
  return counts;
}

std::vector<FabricRoutes::LinkEnds> FabricRoutes::links(const std::vector<std::string>& device_names) const {
  std::vector<LinkEnds> all;
  if (ports(spec_))
    for (std::size_t device = 0; device < seats_.size(); ++device)
      all.push_back({device_names[device], fmt::format("host{}", seats_[device].host)});
  if (!network(spec_)) return all;
  const std::size_t spines = spec_.spine_count();
  const std::size_t shared = spec_.devices_per_host / spec_.nics_per_host;
  const std::size_t first_uplink = all.size() + spec_.hosts * spec_.nics_per_host;
  for (std::size_t nic = 0; nic < spec_.hosts * spec_.nics_per_host; ++nic) {
    const Seat& seat = seats_[nic * shared];
    const std::size_t leaf = spines == 0 ? 0 : (seat.uplinks - first_uplink) / spines;
    all.push_back({shared == 1 ? device_names[nic] : fmt::format("nic{}", nic), fmt::format("leaf{}", leaf)});
  }
  for (std::size_t leaf = 0; spines > 0 && leaf < spec_.leaf_count(); ++leaf)
    for (std::size_t spine = 0; spine < spines; ++spine)
      all.push_back({fmt::format("leaf{}", leaf), fmt::format("spine{}", spine)});
  return all;
}

}  // namespace detail
}  // namespace trainyard
