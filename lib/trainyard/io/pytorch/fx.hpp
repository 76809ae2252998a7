#pragma once

#include <string>
#include <string_view>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Whether the text begins with "format": "fx-train-0".
bool is_fx_graph(std::string_view begin);

/// Reads a training graph traced by torch.fx (make_fx over forward, backward and optimizer) from JSON:
///
///     {"format": "fx-train-0",
///      "tensors": [{"id", "shape", "dtype", "bytes", "kind": param|buffer|input|label|fwd|bwd|optstate, "name",
///      "base"}], "nodes": [{"id", "name", "op", "phase": fwd|bwd|opt, "alias", "in", "out", "flops"}]}
///
/// Nodes refer to tensors by their index in the list. A node with "alias" makes a view of its base and is not an op. An
/// op that writes a base makes a new version of it, NODE:RESULT, with the base's bytes. Parameters and optimizer states
/// are held by the optimizer op that reads them. Ops that read the same parameter are on one device. Throws InputError
/// with line and column: the codes of every JSON file (read_graph), "fx-node" (a tensor that is not in the list or is
/// out of order, a tensor read before it is made, an unknown phase), and as GraphBuilder::build() does.
Graph parse_fx_graph(std::string_view text, const std::string& name);

}  // namespace trainyard
