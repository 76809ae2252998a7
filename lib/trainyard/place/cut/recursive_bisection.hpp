#pragma once

#include <cstdint>

#include "trainyard/place/cut/group_graph.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

struct BisectionOptions {
  double imbalance = 0.05;  // of each cut: by how much a side's op time may exceed its share
  std::uint64_t seed = 1;
};

/// A device for each group, one that can run it. The devices are halved recursively (first between kinds; equal devices
/// by id, so that near ones stay together), and the groups with them (bisect), such that both halves would finish at
/// the same time. Groups that only one half can run are fixed there. Each half holds at most the memory of its devices
/// together.
GroupDevices bisect_devices(const Problem& problem, const GroupGraph& graph, const BisectionOptions& options = {});

}  // namespace trainyard
