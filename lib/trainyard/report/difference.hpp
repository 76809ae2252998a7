#pragma once

#include <string>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// One difference between two files. `before` or `after` is empty if that file lacks the item.
struct Difference {
  std::string what;  // "step time", "peak memory", "layer", "op", "transfer", "device", "link", ...
  std::string name;  // of the layer, op, ...; empty if the difference concerns the whole file
  std::string before, after;
  Bytes bytes = {};  // bytes moved, or carried by the transfer

  friend bool operator==(const Difference&, const Difference&) = default;
};

/// Differences of two schedules of a problem, both of which are simulated: rewrites, policy, step time, fit in memory,
/// and peak memory by device. If the rewrites are equal, also
///   - layers on different devices, with the bytes of parameters, optimizer state and outputs that moved, most first;
///   - transfers of one schedule only, by bytes, most first;
///   - for each device, the first position at which its ops run in a different order.
/// Throws as simulate() and apply_rewrites() do.
std::vector<Difference> differences(const Problem& problem, const Schedule& before, const Schedule& after);

/// Differences of two graphs, in the order of the ops: ops of one graph only, and the differing fields of ops of both.
std::vector<Difference> differences(const Graph& before, const Graph& after);

/// Differences of two clusters: devices, switches, links, egresses and fabrics.
std::vector<Difference> differences(const ClusterSpec& before, const ClusterSpec& after);

}  // namespace trainyard
