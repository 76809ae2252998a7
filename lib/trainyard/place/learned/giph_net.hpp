#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/place/learned/doppler_graph.hpp"

namespace trainyard::learned {

/// GiPH's gpNet of a placement: a node for each group and device, of which those of the placement are pivots; an edge
/// of the graph from u to v becomes edges from u's pivot to all of v's nodes, and from all of u's nodes to v's pivot.
/// Node g d is number g x devices + d. Each feature is divided by the largest of its column, so that it is in -1 to 1.
struct GpNet {
  GpNet(const PlacementTask& task, const DopplerGraph& graph, const Devices& placement);

  static constexpr std::size_t kNodeFeatures = 4, kEdgeFeatures = 3;
  /// The group's mean run time; the run time of all groups on the device; that of the group there; and the start-time
  /// potential: when the first op of the group could start there at the earliest with its inputs as they are, minus
  /// when it starts now, simulated.
  learn::Matrix<double> nodes;
  /// Messages down the edges and up them: sender, messages that each node gets, and of each message the time that
  /// the edge's tensors take on the way between any two devices, the latency between the two nodes' devices, and the
  /// time between those (0 where they are one).
  struct Messages {
    std::vector<std::uint32_t> senders;
    learn::RowLists inbox;
    learn::Matrix<double> edges;
  };
  Messages down, up;
};

}  // namespace trainyard::learned
