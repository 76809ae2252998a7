#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::cpu {

struct MemoryLinkOptions {
  std::int64_t least_bytes = 256, most_bytes = std::int64_t{1} << 30;  // each size 4 times the one before
  int samples = 9;                                                     // of a size, where it does not take too long
  std::int64_t most_ns = 4'000'000'000;                                // of a ladder: larger sizes are then left out
};

/// Copies between the memories of the cluster's devices, as far as each has a core of its own: the core of the one
/// writes the bytes, that of the other copies them into memory that it wrote first. Each direction alone, then both at
/// once. Bytes are compared after the last copy of each size. The first copy of a size is dropped ("warm-up"), and one
/// from which other work took the core ("other-work"); a size that does not fit into a quarter of the free memory is
/// left out.
std::vector<LinkMeasurement> measure_memory_links(const Cluster& cluster, const MemoryLinkOptions& options = {});

}  // namespace trainyard::cpu
