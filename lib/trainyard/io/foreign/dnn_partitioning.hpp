#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A workload of msr-fiddle/dnn-partitioning (J. Tarnawski et al.: Efficient algorithms for device placement of DNN
/// graph operators, NeurIPS 2020) with the values of its file. Times are in milliseconds.
struct DnnWorkload {
  struct Node {
    std::int64_t id = 0;
    std::string name = {};
    bool on_accelerator = false, backward = false;
    double cpu = 0, accelerator = 0;         // ms
    std::optional<std::int64_t> color = {};  // nodes of one color share a device
    Bytes size;                              // on an accelerator; the memory of CPUs is unlimited
    // ms to copy the output from an accelerator to the host or back; 0 if no node reads it
    double cost = 0;
  };
  std::string name;
  std::size_t accelerators = 0, cpus = 0;
  Bytes accelerator_memory;
  std::vector<Node> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> edges;  // indices of nodes: from, to
};

/// Whether a file looks like a workload: its name ends in .json or .json.gz, and its first 4096 bytes contain
/// "maxFPGAs".
bool is_dnn_workload(const std::filesystem::path& path);

/// Reads a workload's JSON file. Throws InputError with line and column. The codes are those of every JSON file
/// (read_graph), "negative-time", "duplicate-name" (an id given twice), "unknown-node", "empty-graph", and "edge-cost"
/// if the costs of edges from one node differ by more than 10^-6 ms.
DnnWorkload read_dnn_workload(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
DnnWorkload parse_dnn_workload(std::string_view text, const std::string& name);

/// A graph with one op per node, with the node's name ("n" and its id if the name is missing or taken), its times on
/// "gpu" and "cpu", and its size as parameter bytes. Its output is one tensor of cost x 2 GiB/s bytes. Nodes of one
/// color form a colocation group. The paper counts only the sum of sizes as memory; the simulator also counts the
/// outputs.
Graph workload_graph(const DnnWorkload& workload);

/// A cluster of accelerators "gpu0", ... and CPUs "cpu0", ... around the host's memory. Each accelerator has a
/// full-duplex link of 2 GiB/s to the host, so a tensor between two accelerators occupies both links for its cost. The
/// links of CPUs are so fast that their time is negligible.
ClusterSpec workload_cluster(const DnnWorkload& workload);

}  // namespace trainyard
