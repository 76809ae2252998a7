#pragma once

#include <cstdint>

#include "trainyard/place/cut/group_graph.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

struct BisectionOptions {
  double imbalance = 0.05;  // of each cut: how far above its share a side's op time may be
  std::uint64_t seed = 1;
};

/// A device for each group, one that can run it: the devices are halved again and again (of several kinds the kinds
/// first; alike ones by their ids, so that what is near each other stays together), and the groups with them (bisect),
/// such that both halves would be done at the same time. What only one half can run is fixed there. Each half holds no
/// more than its devices together.
GroupDevices bisect_devices(const Problem& problem, const GroupGraph& graph, const BisectionOptions& options = {});

}  // namespace trainyard
