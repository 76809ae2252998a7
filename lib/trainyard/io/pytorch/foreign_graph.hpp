#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A graph from another program's file, and the reader's notes for the user.
struct ForeignGraph {
  Graph graph;
  std::vector<std::string> notes;
};

/// Reads a file whose format is recognized by its beginning (an execution trace of PyTorch, a graph of torch.fx, a
/// Chakra trace in JSON) or by its name (Chakra traces, see is_chakra_path()). Returns nothing for other files. Throws
/// InputError as their readers do, and "kineto" for a Kineto trace, which does not contain a graph.
std::optional<ForeignGraph> read_foreign_graph(const std::filesystem::path& path);

}  // namespace trainyard
