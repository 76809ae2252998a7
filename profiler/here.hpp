#pragma once

#include <string>
#include <vector>

#include "profiler/run/cuda/api.hpp"
#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// This machine, without measuring anything.
struct MachineHere {
  ClusterSpec cluster;
  std::vector<std::string> notes;  // what is not known, and what would measure it
};

/// GPUs as NVML tells them: kinds by their names (kind_of_gpu), their own memory; links by their number and
/// generation, at the rate of like servers (cluster/presets.cpp):
///
///     NVLink       19.4, 24.2, 22.0, 21.6, 43.0 GB/s a link of generation 1 to 5, between two GPUs or to a switch
///     PCIe         12.3, 26.4, 55.6 GB/s for 16 lanes of generation 3 to 5; 1 and 2 at 3's share of their data sheets
///     buses        GPUs below one PCIe switch share its way to the host
///
/// Where NVML is not there (a table of null pointers) or knows no GPU, the cores that this process may use, 64 at most,
/// each of the kind cpu-core with its share of the memory.
MachineHere machine_here(const cuda::Nvml& nvml);

}  // namespace trainyard
