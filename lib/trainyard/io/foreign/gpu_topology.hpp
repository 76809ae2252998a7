#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Positions of a machine's NVIDIA GPUs, without bandwidths. GPUs are in the order of the file (`nvidia-smi topo -m`)
/// or of their PCI addresses (lstopo).
struct GpuTopology {
  std::vector<std::string> addresses;  // "0000:00:17.0" for each GPU, lower case; empty for topo -m
  std::vector<std::string> names;      // in the PCI database: "Tesla V100 SXM2 16GB"; or empty
  // Groups of two or more GPUs below one PCIe switch, whose uplink they share.
  std::vector<std::vector<std::size_t>> bridges;
  std::vector<std::size_t> package;       // index of each GPU's CPU socket, from 0
  std::vector<std::vector<int>> nvlinks;  // number of links of each pair (NV#); empty for lstopo

  std::size_t size() const { return package.size(); }
};

/// Whether the text is an XML file of lstopo (hwloc 2: `lstopo --of xml`).
bool is_lstopo(std::string_view text);
/// Whether the text is the output of `nvidia-smi topo -m`.
bool is_topo_matrix(std::string_view text);

/// Reads either format; `name` is the file in messages.
///
/// In lstopo's output, GPUs are the PCI devices of class 03 (display) and vendor 10de. GPUs are below one switch if
/// they share a PCI bridge other than the host bridge. In the output of `topo -m`, two GPUs are below one switch if
/// they are PIX or PXB to each other or to the same network card; equal CPU affinities form a package.
///
/// Throws InputError with positions, code "topology", if the text is in neither format, has no GPUs, or is truncated.
GpuTopology parse_gpu_topology(std::string_view text, const std::string& name);

}  // namespace trainyard
