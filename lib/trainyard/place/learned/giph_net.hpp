#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/place/learned/doppler_graph.hpp"

namespace trainyard::learned {

/// GiPH's gpNet of a placement. It has a node for each group and device; the nodes of the placement are pivots. An edge
/// of the graph from u to v becomes edges from u's pivot to all of v's nodes, and from all of u's nodes to v's pivot.
/// The node of group g on device d has the number g x devices + d. Each feature is divided by the largest absolute
/// value of its column, so that it is in -1 to 1.
struct GpNet {
  GpNet(const PlacementTask& task, const DopplerGraph& graph, const Devices& placement);

  static constexpr std::size_t kNodeFeatures = 4, kEdgeFeatures = 3;
  /// Features of a node: the group's mean run time; the run time of all groups together on the device; that of the
  /// group there; and the start-time potential, which is the earliest start of the group's first op there, with its
  /// inputs where they are now, minus its start now, simulated.
  learn::Matrix<double> nodes;
  /// Messages down the edges and up them: senders, the messages that each node receives, and the features of each
  /// message: the edge's mean transfer time, the latency between the two nodes' devices, and the mean transfer time
  /// again, 0 if the two devices are one.
  struct Messages {
    std::vector<std::uint32_t> senders;
    learn::RowLists inbox;
    learn::Matrix<double> edges;
  };
  Messages down, up;
};

}  // namespace trainyard::learned
