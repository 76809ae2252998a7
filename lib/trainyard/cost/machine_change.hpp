#pragma once

#include <span>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/cost/costs.hpp"

namespace trainyard {

/// A what-if: parts of a machine are `factor` times as good; below 1: worse.
struct MachineChange {
  double factor = 2;                   // more than 0
  std::vector<DeviceId> devices = {};  // every op there takes 1 / factor of its time
  /// Latency / factor, bandwidth x factor; of both directions. An egress counts on after the declared links, as in
  /// Route::links. Links of one fair bus have one bandwidth: all of them change with one.
  std::vector<LinkId> links = {};
  std::vector<DeviceId> memories = {};  // capacity x factor
  // In place of links, where there is a fabric: the ports that join devices of a host, the network between hosts.
  bool ports = false, network = false;

  friend bool operator==(const MachineChange&, const MachineChange&) = default;
};

struct ChangedMachine {
  Cluster cluster;
  Costs costs;
};

/// The machine with all the changes made, one after the other. Routes stay what they are on clusters of up to
/// `kKeptRoutes` devices; beyond, a path that becomes better is taken. A route that was measured changes in the
/// proportion in which the latency and the bandwidth of its links do. Throws InputError: "range" (a factor that is not
/// finite and more than 0), "unknown-device", "unknown-link", and as make_cluster does.
inline constexpr std::size_t kKeptRoutes = 256;
ChangedMachine changed_machine(const Cluster& cluster, const Costs& costs, std::span<const MachineChange> changes);

}  // namespace trainyard
