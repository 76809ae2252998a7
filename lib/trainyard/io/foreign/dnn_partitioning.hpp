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
/// graph operators, NeurIPS 2020), as its files have it: times in milliseconds.
struct DnnWorkload {
  struct Node {
    std::int64_t id = 0;
    std::string name = {};
    bool on_accelerator = false, backward = false;
    double cpu = 0, accelerator = 0;         // ms
    std::optional<std::int64_t> color = {};  // nodes of one color share a device
    Bytes size;                              // on an accelerator; CPUs have all the memory they need
    double cost = 0;  // ms for its output to get from an accelerator to the host or back; 0: nobody reads it
  };
  std::string name;
  std::size_t accelerators = 0, cpus = 0;
  Bytes accelerator_memory;
  std::vector<Node> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> edges;  // positions of nodes: from, to
};

/// Whether a file seems to be one: it ends in .json, and "maxFPGAs" is in its first 4096 bytes.
bool is_dnn_workload(const std::filesystem::path& path);

/// Reads such a JSON file. Throws InputError with line and column: what read_graph throws of JSON, "negative-time",
/// "duplicate-name" (an id), "unknown-node", and "edge-cost" where edges from one node differ in cost by more than
/// 10^-6 ms.
DnnWorkload read_dnn_workload(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
DnnWorkload parse_dnn_workload(std::string_view text, const std::string& name);

/// Each node an op named as in the file ("n" and its id where the name is missing or taken), with its times on "gpu"
/// and "cpu" and its size as parameters; its output one tensor of cost x 2 GiB/s bytes; each color a colocation group.
/// The paper's memory is the sum of sizes alone; the simulator's also has the outputs.
Graph workload_graph(const DnnWorkload& workload);

/// Accelerators "gpu0", ... and CPUs "cpu0", ... around the host's memory: each accelerator joined to it by a link of
/// 2 GiB/s, both ways at once, so that a tensor between two of them holds the links of both for its cost; the links of
/// CPUs take no time worth counting.
ClusterSpec workload_cluster(const DnnWorkload& workload);

}  // namespace trainyard
