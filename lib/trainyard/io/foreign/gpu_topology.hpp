#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Places of the NVIDIA GPUs of a machine, without any bandwidth. GPUs are in the order of the file (`nvidia-smi topo
/// -m`) or of their PCI addresses (lstopo).
struct GpuTopology {
  std::vector<std::string> addresses;             // "0000:00:17.0" of each GPU, lower case; empty of topo -m
  std::vector<std::string> names;                 // as the PCI database has them: "Tesla V100 SXM2 16GB"; or empty
  std::vector<std::vector<std::size_t>> bridges;  // two or more GPUs below one PCIe switch: they share its way up
  std::vector<std::size_t> package;               // CPU socket of each GPU, as a number from 0
  std::vector<std::vector<int>> nvlinks;          // between each two GPUs (NV#); empty of lstopo

  std::size_t size() const { return package.size(); }
};

/// An XML file of lstopo (hwloc 2: `lstopo --of xml`).
bool is_lstopo(std::string_view text);
/// What `nvidia-smi topo -m` prints.
bool is_topo_matrix(std::string_view text);

/// Reads either; `name` is the file in messages.
///
/// GPUs in lstopo's output: PCI devices of class 03 (display) and vendor 10de. They are below one switch where their
/// lowest common object is a bridge below another bridge. Of `topo -m`: where both are PIX or PXB to each other or to
/// one network card; packages are equal CPU affinities.
///
/// Throws InputError with positions: "topology" for a text of neither kind, for one without GPUs, or one cut short.
GpuTopology parse_gpu_topology(std::string_view text, const std::string& name);

}  // namespace trainyard
