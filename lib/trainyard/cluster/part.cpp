#include "trainyard/cluster/part.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

/// A fabric of these devices: whole hosts, or consecutive devices of one host. The leaves and pods of the part begin
/// with its first host.
FabricSpec part_of_fabric(FabricSpec fabric, std::span<const DeviceId> devices) {
  if (devices.empty()) refuse("part", "a part of a fabric has no devices", "name at least one");
  const std::size_t first = devices.front().index(), each = fabric.devices_per_host;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].index() != first + i)
      refuse("part", "the devices of a part of a fabric must be consecutive", "take whole hosts");
  const bool whole = first % each == 0 && devices.size() % each == 0;
  const bool within = first / each == devices.back().index() / each && fabric.torus.empty();
  if (!whole && !within)
    refuse("part",
           fmt::format("{} devices of a fabric are neither whole hosts nor a part of one host without a torus",
                       devices.size()),
           "take whole hosts");
  fabric.hosts = whole ? devices.size() / each : 1;
  const std::size_t host = first / each, last = devices.back().index() / each;
  const auto check_blocks = [&](std::size_t hosts, const char* what, const char* one) {
    if (host % hosts != 0 && host / hosts != last / hosts)
      refuse("part",
             fmt::format("hosts {} to {} are on several {} of {} hosts, and do not begin at the start of a {}", host,
                         last, what, hosts, one),
             fmt::format("begin with host {}, or take hosts of a single {}", host / hosts * hosts, one));
  };
  if (host < last) {
    check_blocks(fabric.hosts_per_leaf, "leaves", "leaf");
    if (fabric.hosts_per_pod) check_blocks(*fabric.hosts_per_pod, "pods", "pod");
  }
  if (!whole) fabric.devices_per_host = devices.size();
  return fabric;
}

}  // namespace

Cluster part_of(const Cluster& cluster, std::span<const DeviceId> devices) {
  ClusterSpec spec = cluster.spec();
  std::vector<Device> all = std::move(spec.devices);
  spec.devices.clear();
  std::set<std::string_view> kept;
  for (const DeviceId device : devices) {
    spec.devices.push_back(all[device.index()]);
    kept.insert(all[device.index()].name);
  }
  const auto gone = [&](const std::string& name) { return !kept.contains(name); };
  if (spec.fabric) {
    spec.fabric = part_of_fabric(std::move(*spec.fabric), devices);
  } else {
    for (const Device& device : all)
      if (gone(device.name)) spec.switches.push_back(device.name);
    std::erase_if(spec.egresses, [&](const Egress& egress) { return gone(egress.device); });
    std::erase_if(spec.routes, [&](const GivenRoute& route) { return gone(route.from) || gone(route.to); });
  }
  std::erase_if(spec.measured, [&](const MeasuredRoute& route) { return gone(route.from) || gone(route.to); });
  return make_cluster(std::move(spec));
}

}  // namespace trainyard
