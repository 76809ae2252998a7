#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::cpu {

struct MemoryLinkOptions {
  std::int64_t least_bytes = 256, most_bytes = std::int64_t{1} << 30;  // each size 4 times the previous
  int samples = 9;                                                     // per size, if time allows
  std::int64_t most_ns = 4'000'000'000;                                // per ladder; larger sizes are then left out
};

/// Copies between the memories of the cluster's devices, for as many devices as there are cores. The sender's core
/// writes the bytes; the receiver's core copies them into memory that it wrote first. Each direction is measured alone,
/// then both at once. Bytes are compared after the last copy of each size. The first copy of a size is dropped
/// ("warm-up"), as are copies during which other work took the core ("other-work"). Sizes whose four buffers exceed a
/// quarter of the free memory are left out.
std::vector<LinkMeasurement> measure_memory_links(const Cluster& cluster, const MemoryLinkOptions& options = {});

}  // namespace trainyard::cpu
