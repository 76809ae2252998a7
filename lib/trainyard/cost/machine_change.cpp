#include "trainyard/cost/machine_change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/cost/speeds.hpp"

namespace trainyard {
namespace {

void change_fabric(FabricSpec& fabric, const MachineChange& change) {
  if (change.ports) {
    fabric.port_bandwidth = fabric.port_bandwidth * change.factor;
    fabric.port_latency = at_speed(fabric.port_latency, change.factor);
  }
  if (change.network) {
    fabric.nic_bandwidth = fabric.nic_bandwidth * change.factor;
    fabric.nic_latency = at_speed(fabric.nic_latency, change.factor);
    fabric.uplink_latency = at_speed(fabric.uplink_latency, change.factor);
    fabric.core_latency = at_speed(fabric.core_latency, change.factor);
  }
}

void change_links(ClusterSpec& spec, const MachineChange& change) {
  std::vector<bool> changed(spec.links.size() + spec.egresses.size(), false);
  for (const LinkId link : change.links) {
    changed[link.index()] = true;
    if (link.index() >= spec.links.size()) continue;
    const Link& one = spec.links[link.index()];
    if (one.sharing != Sharing::fair || one.bus.empty()) continue;
    for (std::size_t i = 0; i < spec.links.size(); ++i)
      if (spec.links[i].bus == one.bus) changed[i] = true;
  }
  const auto faster = [&](auto& link) {
    link.bandwidth = link.bandwidth * change.factor;
    link.latency = at_speed(link.latency, change.factor);
  };
  for (std::size_t i = 0; i < changed.size(); ++i) {
    if (!changed[i]) continue;
    if (i < spec.links.size())
      faster(spec.links[i]);
    else
      faster(spec.egresses[i - spec.links.size()]);
  }
}

/// Declared latency (sum) and bandwidth (minimum) of the links of a route.
struct Declared {
  double latency = 0, bandwidth = 0;
};
Declared declared(const ClusterSpec& spec, const Route& route) {
  Declared sum;
  for (const LinkId id : route.links) {
    const bool egress = id.index() >= spec.links.size();
    const std::size_t at = egress ? id.index() - spec.links.size() : id.index();
    const Nanoseconds latency = egress ? spec.egresses[at].latency : spec.links[at].latency;
    const double bandwidth = (egress ? spec.egresses[at].bandwidth : spec.links[at].bandwidth).value;
    sum.latency += static_cast<double>(latency.count);
    sum.bandwidth = sum.bandwidth == 0 ? bandwidth : std::min(sum.bandwidth, bandwidth);
  }
  return sum;
}

/// Scales measured routes, and copies of their curves, in proportion to their links.
void change_measured(ClusterSpec& spec, const Cluster& cluster, std::vector<TransferCurve>& curves) {
  for (MeasuredRoute& measured : spec.measured) {
    const auto from = cluster.find_device(measured.from), to = cluster.find_device(measured.to);
    const Route route = cluster.route(*from, *to);
    const Declared before = declared(cluster.spec(), route), after = declared(spec, route);
    const double faster = after.bandwidth / before.bandwidth;
    const double nearer = after.latency > 0 ? before.latency / after.latency : faster;
    if (faster == 1 && nearer == 1) continue;
    measured.bandwidth = measured.bandwidth * faster;
    measured.latency = at_speed(measured.latency, nearer);
    if (measured.curve == 0 || measured.curve > curves.size()) continue;
    TransferCurve curve = curves[measured.curve - 1];
    for (TransferSegment& segment : curve.segments) {
      segment.latency_ns /= nearer;
      segment.ns_per_byte /= faster;
    }
    curves.push_back(std::move(curve));
    measured.curve = static_cast<std::uint32_t>(curves.size());
  }
}

/// Declares every present route in the spec, so that make_cluster() does not search others.
void keep_routes(ClusterSpec& spec, const Cluster& cluster) {
  if (cluster.one_route_per_source() || cluster.device_count() > kKeptRoutes) return;
  spec.routes.clear();
  for (const DeviceId from : cluster.devices())
    for (const DeviceId to : cluster.devices()) {
      if (from == to) continue;
      GivenRoute given{cluster.device(from).name, cluster.device(to).name, {}};
      bool egress = false;  // a given route cannot name an egress; such a path stays best at nearly any speed
      for (const LinkId link : cluster.route(from, to).links) {
        egress = egress || link.index() >= spec.links.size();
        if (!egress) given.links.push_back(spec.links[link.index()].name);
      }
      if (!egress) spec.routes.push_back(std::move(given));
    }
}

void check_change(const Cluster& cluster, const MachineChange& change) {
  if (!(change.factor > 0 && std::isfinite(change.factor)))
    refuse("range", fmt::format("a machine cannot be changed by a factor of {}", change.factor),
           "give a finite number above 0; 2 means twice as good");
  const auto check = [&](const auto& ids, std::size_t count, const char* kind) {
    for (const auto id : ids)
      if (id.index() >= count)
        refuse(fmt::format("unknown-{}", kind),
               fmt::format("a change names a {} that cluster '{}' does not have", kind, cluster.name()),
               fmt::format("it has {} of them, numbered from 0", count));
  };
  check(change.devices, cluster.device_count(), "device");
  check(change.memories, cluster.device_count(), "device");
  check(change.links, cluster.spec().links.size() + cluster.spec().egresses.size(), "link");
}

}  // namespace

ChangedMachine changed_machine(const Cluster& cluster, const Costs& costs, std::span<const MachineChange> changes) {
  ClusterSpec spec = cluster.spec();
  Costs changed = costs;
  Speeds speeds = costs.speeds();
  bool links = false;
  for (const MachineChange& change : changes) {
    check_change(cluster, change);
    for (const DeviceId device : change.devices)
      speeds.devices.try_emplace(cluster.device(device).name, 1.0).first->second *= change.factor;
    for (const DeviceId device : change.memories)
      if (auto& memory = spec.devices[device.index()].memory)
        memory = Bytes{static_cast<std::int64_t>(std::min(
            std::floor(static_cast<double>(memory->count) * change.factor), static_cast<double>(kLongestTime.count)))};
    if (spec.fabric) change_fabric(*spec.fabric, change);
    if (change.links.empty() || spec.fabric) continue;
    links = true;
    change_links(spec, change);
  }
  if (links) {
    keep_routes(spec, cluster);
    const CostModel* standard = costs.target<CostModel>();
    CostModel model = standard ? *standard : CostModel{};
    change_measured(spec, cluster, model.curves);
    if (standard) changed = std::move(model);
  }
  return {make_cluster(std::move(spec)), changed.at(std::move(speeds))};
}

}  // namespace trainyard
