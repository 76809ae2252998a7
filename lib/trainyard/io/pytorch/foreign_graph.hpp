#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A graph out of another program's file, and what its reader wants the user to know.
struct ForeignGraph {
  Graph graph;
  std::vector<std::string> notes;
};

/// Reads a file that is known by how it begins: an execution trace of PyTorch, a graph of torch.fx, a Chakra trace in
/// JSON; or Chakra traces by their names (is_chakra_path). Nothing where it is none of these, or standard input. Throws
/// InputError as their readers do, and "kineto": a trace of Kineto alone, which is no graph.
std::optional<ForeignGraph> read_foreign_graph(const std::filesystem::path& path);

}  // namespace trainyard
