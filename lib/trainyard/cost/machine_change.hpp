#pragma once

#include <span>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/cost/costs.hpp"

namespace trainyard {

/// A what-if change: parts of a machine become `factor` times as good (worse if below 1).
struct MachineChange {
  double factor = 2;                   // more than 0
  std::vector<DeviceId> devices = {};  // every op there takes 1 / factor of its time
  /// Latency / factor and bandwidth x factor, in both directions. Ids of egresses follow those of the declared links,
  /// as in Route::links. Links of a fair bus share one bandwidth, so all of them change together.
  std::vector<LinkId> links = {};
  std::vector<DeviceId> memories = {};  // capacity x factor
  // For fabrics, instead of links: the ports of devices within a host, and the network between hosts.
  bool ports = false, network = false;

  friend bool operator==(const MachineChange&, const MachineChange&) = default;
};

struct ChangedMachine {
  Cluster cluster;
  Costs costs;
};

/// Upper limit on the devices of clusters whose routes changed_machine() keeps.
inline constexpr std::size_t kKeptRoutes = 256;
/// The machine with all changes applied in order. Clusters of up to kKeptRoutes devices keep their routes; on larger
/// ones, routes follow paths that become better. Measured routes change in proportion to the latency and bandwidth of
/// their links. Throws InputError: "range" (a factor that is not positive and finite), "unknown-device",
/// "unknown-link", and as make_cluster does.
ChangedMachine changed_machine(const Cluster& cluster, const Costs& costs, std::span<const MachineChange> changes);

}  // namespace trainyard
