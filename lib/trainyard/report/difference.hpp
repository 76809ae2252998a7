#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// One thing that differs between two files. An empty side lacks it.
struct Difference {
  std::string what;  // "step time", "peak memory", "layer", "op", "transfer", "device", "link", ...
  std::string name;  // of the layer, the op, ...; empty for the whole
  std::string before, after;
  Bytes bytes = {};  // that moved, or that the transfer carries

  friend bool operator==(const Difference&, const Difference&) = default;
};

/// Differences of two schedules of a problem: rewrites, policy, step time, whether it fits, peak memory by device; of
/// schedules with the same rewrites also layers whose devices differ (with the bytes of their parameters, optimizer
/// state and outputs that moved, the most first), transfers that one of them alone has (by bytes), and by device the
/// first two ops that run in another order. Both are simulated. Throws as simulate() and apply_rewrites() do.
std::vector<Difference> differences(const Problem& problem, const Schedule& before, const Schedule& after);

/// Differences of two graphs: ops that one alone has, and what differs of those that both have, in the order of the
/// ops.
std::vector<Difference> differences(const Graph& before, const Graph& after);

/// Differences of two clusters: devices, switches, links, egresses and fabrics.
std::vector<Difference> differences(const ClusterSpec& before, const ClusterSpec& after);

}  // namespace trainyard
