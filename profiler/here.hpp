#pragma once

#include <string>
#include <vector>

#include "profiler/run/cuda/api.hpp"
#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// This machine as a cluster, without any measurement.
struct MachineHere {
  ClusterSpec cluster;
  std::vector<std::string> notes;  // unknown properties, and how to measure them
};

/// GPUs as NVML reports them: kinds by name (kind_of_gpu), memory, and links by number and generation, at the rates of
/// similar servers (cluster/presets.cpp):
///
///     NVLink       19.4, 24.2, 22.0, 21.6, 43.0 GB/s per link of generation 1 to 5, between two GPUs or to a switch
///     PCIe         12.3, 26.4, 55.6 GB/s for 16 lanes of generation 3 to 5; 1 and 2 scaled from 3 by their data sheets
///     buses        GPUs that PCIe switches join below the host bridge share its way to the host
///
/// Without NVML (a table of null pointers) or GPUs: the cores that this process may use, at most 64, of the kind
/// cpu-core, each with an equal share of the memory.
MachineHere machine_here(const cuda::Nvml& nvml);

}  // namespace trainyard
