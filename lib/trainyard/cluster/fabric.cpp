#include "trainyard/cluster/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard {
namespace {

constexpr std::size_t kMostHops = Hops<std::uint32_t>::kMost;

std::size_t groups(const FabricSpec& spec) { return (spec.hosts + spec.hosts_per_leaf - 1) / spec.hosts_per_leaf; }

std::size_t nics_per_leaf(const FabricSpec& spec) {
  const std::size_t of_host = spec.leaf == FabricSpec::Leaf::rail ? 1 : spec.nics_per_host;
  return std::min(spec.hosts, spec.hosts_per_leaf) * of_host;
}

bool network(const FabricSpec& spec) { return spec.hosts > 1; }

std::size_t leaves_per_group(const FabricSpec& spec) {
  return spec.leaf == FabricSpec::Leaf::rail ? spec.nics_per_host : 1;
}

/// Number of leaf switches of a full pod.
std::size_t leaves_per_pod(const FabricSpec& spec) {
  return std::min(groups(spec), spec.hosts_per_pod.value_or(spec.hosts) / spec.hosts_per_leaf) * leaves_per_group(spec);
}

std::size_t rounded_up(double links) { return static_cast<std::size_t>(std::ceil(links)); }

std::size_t spines_per_pod(const FabricSpec& spec) {
  return spec.leaf_count() < 2 ? 0 : rounded_up(static_cast<double>(nics_per_leaf(spec)) / spec.oversubscription);
}

std::size_t cores_per_spine(const FabricSpec& spec) {
  return spec.pod_count() < 2 ? 0 : rounded_up(static_cast<double>(leaves_per_pod(spec)) / spec.core_oversubscription);
}

/// Number of the leaf of a host's card.
std::size_t leaf_of(const FabricSpec& spec, std::size_t host, std::size_t nic) {
  const std::size_t group = host / spec.hosts_per_leaf;
  return spec.leaf == FabricSpec::Leaf::rail ? group * spec.nics_per_host + nic : group;
}

/// Number of links between the two devices of a host's torus that are farthest apart.
std::size_t longest_way_round(const FabricSpec& spec) {
  std::size_t links = 0;
  for (const std::size_t size : spec.torus) links += size / 2;
  return links;
}

}  // namespace

std::size_t FabricSpec::port_links() const {
  if (torus.empty()) return devices_per_host > 1 ? device_count() : 0;
  std::size_t links = 0;
  for (const std::size_t size : torus) links += size > 2 ? device_count() : device_count() / 2;
  return links;
}

std::size_t FabricSpec::leaf_count() const {
  if (!network(*this)) return 0;
  return groups(*this) * leaves_per_group(*this);
}

std::size_t FabricSpec::pod_count() const {
  return network(*this) ? (hosts - 1) / hosts_per_pod.value_or(hosts) + 1 : 0;
}

std::size_t FabricSpec::spine_count() const { return pod_count() * spines_per_pod(*this); }

std::size_t FabricSpec::core_count() const { return spines_per_pod(*this) * cores_per_spine(*this); }

namespace detail {
namespace {

template <class Report>
void check_torus(const FabricSpec& spec, const Report& report) {
  if (spec.torus.empty()) return;
  std::size_t devices = 1;
  bool small = false;
  for (const std::size_t size : spec.torus) {
    small = small || size < 2;
    devices *= std::min(size, 2 * FabricSpec::kMostDevices);
    if (devices > FabricSpec::kMostDevices) break;
  }
  if (spec.torus.size() > FabricSpec::kMostDimensions)
    report("fabric-size",
           fmt::format("a torus has 1 to {} dimensions, but this one has {}", FabricSpec::kMostDimensions,
                       spec.torus.size()),
           "", "torus");
  else if (small)
    report("fabric-size", "a dimension of the torus has fewer than 2 devices, which does not connect anything",
           "leave out dimensions of size 1", "torus");
  else if (devices != spec.devices_per_host)
    report("fabric-size",
           fmt::format("the torus has {}{} devices, but a host has {}",
                       devices > FabricSpec::kMostDevices ? "at least " : "", devices, spec.devices_per_host),
           "leave out devices_per_host: it is the product of the dimensions", "torus");
  else if (longest_way_round(spec) > kMostHops)
    report("fabric-size",
           fmt::format("the most distant devices of the torus are {} links apart, more than the limit of {}",
                       longest_way_round(spec), kMostHops),
           "give it more dimensions, for example torus = [16, 16, 16]", "torus");
}

template <class Report, class Positive, class Time>
void check_network(const FabricSpec& spec, const Report& report, const Positive& positive, const Time& time) {
  const std::size_t nics = spec.nics_per_host, devices = spec.devices_per_host;
  if (nics == 0)
    report("not-positive",
           fmt::format("the nics_per_host of the fabric must be more than 0: without a network card nothing connects "
                       "its {} hosts",
                       spec.hosts),
           "leave it out to have one card per device", "nics_per_host");
  else if (devices % nics != 0 && nics % devices != 0)
    report("fabric-size", fmt::format("{} devices cannot share {} network cards evenly", devices, nics),
           "make nics_per_host a divisor or a multiple of devices_per_host", "nics_per_host");
  else if (nics / devices > FabricSpec::kMostCards)
    report("fabric-size",
           fmt::format("{} network cards for {} devices are more than {} per device", nics, devices,
                       FabricSpec::kMostCards),
           "give one card with their total bandwidth", "nics_per_host");
  positive(std::isfinite(spec.nic_bandwidth.value) && spec.nic_bandwidth.value > 0, "nic_bandwidth");
  time(spec.nic_latency, "nic_latency");
  positive(spec.hosts_per_leaf > 0, "hosts_per_leaf");
  if (!(spec.oversubscription >= 1) || !std::isfinite(spec.oversubscription))
    report("fabric-size",
           fmt::format("the oversubscription of the fabric is {}, but must be 1 or more", spec.oversubscription),
           "1 means as many links to the spines as cards; 2 means half as many", "oversubscription");
  else if (nics > devices && nics / devices <= FabricSpec::kMostCards && spec.leaf == FabricSpec::Leaf::rack &&
           spec.hosts_per_leaf > 0 && spec.leaf_count() > 1 && spines_per_pod(spec) < spec.cards_per_device())
    report("fabric-size",
           fmt::format("{} spines are fewer than the {} network cards of a device, which all send at the same time",
                       spines_per_pod(spec), spec.cards_per_device()),
           "reduce the oversubscription", "oversubscription");
  time(spec.uplink_latency, "uplink_latency");
}

template <class Report, class Positive, class Time>
void check_pods(const FabricSpec& spec, const Report& report, const Positive& positive, const Time& time) {
  time(spec.core_latency, "core_latency");
  if (!(spec.core_oversubscription >= 1) || !std::isfinite(spec.core_oversubscription))
    report(
        "fabric-size",
        fmt::format("the core_oversubscription of the fabric is {}, but must be 1 or more", spec.core_oversubscription),
        "1 means as many links from a spine to the cores as to the leaves of its pod; 7 means a seventh as many",
        "core_oversubscription");
  if (!spec.hosts_per_pod) {
    for (const auto& [given, field] : {std::pair{spec.core_oversubscription != 1, "core_oversubscription"},
                                       std::pair{spec.core_latency != Nanoseconds{0}, "core_latency"}})
      if (given)
        report("fabric-size", fmt::format("the fabric has a {}, but no pods that cores could connect", field),
               "also give hosts_per_pod, or leave this field out", field);
    return;
  }
  const std::size_t hosts = *spec.hosts_per_pod, cards = spec.cards_per_device();
  positive(hosts > 0, "hosts_per_pod");
  if (hosts == 0 || hosts >= spec.hosts || spec.hosts_per_leaf == 0) return;
  if (const std::size_t over = hosts % spec.hosts_per_leaf; over != 0)
    report("fabric-size",
           fmt::format("a pod of {} hosts ends inside a leaf of {} hosts, of which it has only {}", hosts,
                       spec.hosts_per_leaf, over),
           "make hosts_per_pod a multiple of hosts_per_leaf", "hosts_per_pod");
  else if (6 * cards > kMostHops)
    report("fabric-size",
           fmt::format("{} network cards per device with three levels of switches are more than the limit of {}", cards,
                       kMostHops / 6),
           "give fewer cards with the same total bandwidth, or leave out hosts_per_pod", "nics_per_host");
  else if (spec.core_oversubscription >= 1 && spec.leaf == FabricSpec::Leaf::rail && cores_per_spine(spec) < cards)
    report("fabric-size",
           fmt::format(
               "{} cores of a spine are fewer than the {} network cards of a device, which all send at the same time",
               cores_per_spine(spec), cards),
           "reduce the core_oversubscription", "core_oversubscription");
}

}  // namespace

std::vector<Finding> check_fabric(const FabricSpec& spec, std::size_t devices) {
  std::vector<Finding> findings;
  const auto report = [&](const char* code, std::string message, std::string help, const char* field) {
    findings.push_back({code, std::move(message), std::move(help), fmt::format("/fabric/{}", field), {}});
  };
  const auto positive = [&](bool good, const char* field) {
    if (!good) report("not-positive", fmt::format("the {} of the fabric must be more than 0", field), "", field);
  };
  const auto time = [&](Nanoseconds value, const char* field) {
    if (const auto error = error_of(value))
      report(error->code, fmt::format("the {} of the fabric {}", field, error->message), "", field);
  };
  positive(spec.hosts > 0, "hosts");
  positive(spec.devices_per_host > 0, "devices_per_host");
  if (!findings.empty()) return findings;
  if (spec.hosts > FabricSpec::kMostDevices || spec.devices_per_host > FabricSpec::kMostDevices ||
      spec.device_count() > FabricSpec::kMostDevices) {
    report("fabric-size",
           fmt::format("{} hosts of {} devices each are more than {} devices in total", spec.hosts,
                       spec.devices_per_host, FabricSpec::kMostDevices),
           "describe only a part of the machine", "hosts");
    return findings;
  }
  if (devices != spec.device_count())
    report("fabric-size",
           fmt::format("{} hosts of {} devices each make {} devices, but the cluster has {}", spec.hosts,
                       spec.devices_per_host, spec.device_count(), devices),
           "list every device, host by host", "hosts");
  if (spec.devices_per_host > 1) {
    positive(std::isfinite(spec.port_bandwidth.value) && spec.port_bandwidth.value > 0, "port_bandwidth");
    time(spec.port_latency, "port_latency");
  }
  check_torus(spec, report);
  if (spec.sharing == Sharing::none)
    report("fabric", "the links of a fabric cannot have sharing none", "set sharing to serial or fair", "sharing");
  if (network(spec)) {
    check_network(spec, report, positive, time);
    if (findings.empty()) check_pods(spec, report, positive, time);
  }
  const double port = spec.devices_per_host > 1 ? spec.port_bandwidth.value : spec.nic_bandwidth.value;
  const double nic = network(spec) ? spec.nic_bandwidth.value : port;
  if (spec.sharing == Sharing::fair && findings.empty() && std::max(port, nic) / std::min(port, nic) > kWidestFairRange)
    report("fair-range",
           "the bandwidths of the fabric's ports and network cards differ by more than a factor of a million",
           "check the units of the bandwidths", port < nic ? "port_bandwidth" : "nic_bandwidth");
  return findings;
}

FabricRoutes::FabricRoutes(const FabricSpec& spec)
    : spec_(spec),
      rail_(spec.leaf == FabricSpec::Leaf::rail),
      cards_(network(spec) ? spec.cards_per_device() : 1),
      leaves_(network(spec) ? leaves_per_pod(spec) : 0),
      spines_(spines_per_pod(spec)),
      cores_(cores_per_spine(spec)),
      host_ways_(spec.torus.empty() ? 1 : longest_way_round(spec)),
      seats_(spec.device_count()) {
  std::size_t stride = 1, links = 0;
  for (const std::size_t size : spec.torus) {
    torus_.push_back({size, stride, links});
    stride *= size;
    links += size > 2 ? spec.devices_per_host : spec.devices_per_host / 2;
  }
  const std::size_t first_nic = spec.port_links(), first_uplink = first_nic + spec.hosts * spec.nics_per_host;
  first_core_link_ = first_uplink + spec.leaf_count() * spines_;
  for (std::size_t device = 0; device < seats_.size(); ++device) {
    Seat& seat = seats_[device];
    const std::size_t host = device / spec.devices_per_host;
    seat.host = static_cast<std::uint32_t>(host);
    if (!network(spec)) continue;
    const std::size_t nic = device % spec.devices_per_host * spec.nics_per_host / spec.devices_per_host;
    const std::size_t within = host % spec.hosts_per_leaf, leaf = leaf_of(spec, host, nic);
    const std::size_t card = rail_ ? within : within * spec.nics_per_host + nic;  // number on the leaf
    seat.nic = static_cast<std::uint32_t>(first_nic + host * spec.nics_per_host + nic);
    // Without spines there is one leaf, and all devices get the same value.
    seat.uplinks = static_cast<std::uint32_t>(first_uplink + leaf * spines_);
    if (spines_ > 0) seat.spine = static_cast<std::uint32_t>(card % spines_);
    if (cores_ == 0) continue;
    seat.pod = static_cast<std::uint32_t>(leaf / leaves_);
    seat.core = static_cast<std::uint32_t>((leaf % leaves_ + card / spines_ * leaves_) % cores_);
  }
}

std::size_t FabricRoutes::most_channels() const {
  const std::size_t here = torus_.empty() ? 2 : host_ways_;
  return network(spec_) ? std::max(here, (cores_ > 0 ? 6 : spines_ > 0 ? 4 : 2) * cards_) : here;
}

Nanoseconds FabricRoutes::latency(std::size_t way) const {
  const auto times = [](std::size_t count, Nanoseconds time) { return static_cast<std::int64_t>(count) * time; };
  if (way < host_ways_) return times(torus_.empty() ? 2 : way + 1, spec_.port_latency);
  const Nanoseconds leaf = times(2, spec_.nic_latency), spine = leaf + times(2, spec_.uplink_latency);
  return way == host_ways_ ? leaf : way == host_ways_ + 1 ? spine : spine + times(2, spec_.core_latency);
}

BytesPerSecond FabricRoutes::bandwidth(std::size_t way) const {
  return way < host_ways_ ? spec_.port_bandwidth : spec_.nic_bandwidth * static_cast<double>(cards_);
}

std::vector<std::size_t> FabricRoutes::pair_counts() const {
  const std::size_t of_host = spec_.devices_per_host;
  std::vector<std::size_t> counts(way_count(), 0);
  for (std::size_t to = 1; to < of_host; ++to) counts[way(0, to)] += seats_.size();  // the same from every device
  const std::size_t within = seats_.size() * (of_host - 1);
  // A leaf has the same number of devices from each of its hosts.
  const std::size_t of_host_on_leaf = network(spec_) && rail_ ? spec_.devices_per_card() : of_host;
  std::size_t& on_leaf = counts[host_ways_];
  const auto others = [&](std::size_t host, std::size_t together) {  // other hosts in the host's block of `together`
    return std::min(spec_.hosts - host / together * together, together) - 1;
  };
  std::size_t between_pods = 0;
  for (std::size_t host = 0; network(spec_) && host < spec_.hosts; ++host) {
    on_leaf += of_host * others(host, spec_.hosts_per_leaf) * of_host_on_leaf;
    if (cores_ > 0) between_pods += of_host * (spec_.hosts - 1 - others(host, *spec_.hosts_per_pod)) * of_host;
  }
  counts[host_ways_ + 1] = seats_.size() * (seats_.size() - 1) - within - on_leaf - between_pods;
  if (cores_ > 0) counts[host_ways_ + 2] = between_pods;
  return counts;
}

std::vector<FabricRoutes::LinkEnds> FabricRoutes::links(const std::vector<std::string>& device_names) const {
  std::vector<LinkEnds> all;
  const std::size_t of_host = spec_.devices_per_host, nics = spec_.nics_per_host;
  if (torus_.empty() && of_host > 1)
    for (std::size_t device = 0; device < seats_.size(); ++device)
      all.push_back({device_names[device], fmt::format("host{}", seats_[device].host), spec_.port_bandwidth});
  for (std::size_t host = 0; host < spec_.hosts; ++host)
    for (const Dimension& d : torus_)
      for (std::size_t device = 0; device < of_host; ++device) {
        if (d.size == 2 && d.at(device) == 1) continue;
        const std::size_t next = device - d.at(device) * d.stride + (d.at(device) + 1) % d.size * d.stride;
        all.push_back(
            {device_names[host * of_host + device], device_names[host * of_host + next], spec_.port_bandwidth});
      }
  if (!network(spec_)) return all;
  for (std::size_t nic = 0; nic < spec_.hosts * nics; ++nic)
    all.push_back({nics == of_host ? device_names[nic] : fmt::format("nic{}", nic),
                   fmt::format("leaf{}", leaf_of(spec_, nic / nics, nic % nics)), spec_.nic_bandwidth});
  for (std::size_t leaf = 0; spines_ > 0 && leaf < spec_.leaf_count(); ++leaf)
    for (std::size_t spine = 0, first = cores_ > 0 ? leaf / leaves_ * spines_ : 0; spine < spines_; ++spine)
      all.push_back({fmt::format("leaf{}", leaf), fmt::format("spine{}", first + spine), spec_.nic_bandwidth});
  for (std::size_t spine = 0; cores_ > 0 && spine < spec_.spine_count(); ++spine)
    for (std::size_t core = 0, first = spine % spines_ * cores_; core < cores_; ++core)
      all.push_back({fmt::format("spine{}", spine), fmt::format("core{}", first + core), spec_.nic_bandwidth});
  return all;
}

}  // namespace detail
}  // namespace trainyard
