#pragma once

#include <string>
#include <string_view>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Whether the text begins with "format": "fx-train-0".
bool is_fx_graph(std::string_view begin);

/// A training graph that torch.fx has traced (make_fx over forward, backward and optimizer), as JSON:
///
///     {"format": "fx-train-0",
///      "tensors": [{"id", "shape", "dtype", "bytes", "kind": param|buffer|input|label|fwd|bwd|optstate, "name",
///      "base"}], "nodes": [{"id", "name", "op", "phase": fwd|bwd|opt, "alias", "in", "out", "flops"}]}
///
/// Tensors by their place in the list. A node with "alias" makes a view of its base, and is no op; an op that writes a
/// base makes a new version of it, NODE:RESULT, of the base's bytes. Parameters and optimizer states are held by the
/// optimizer's op that reads them; ops that read one parameter are on one device. Throws InputError with line and
/// column: those of every JSON file (read_graph), "fx-node" (a tensor that is not in the list, a tensor out of its
/// place, a tensor that is read before it is made, a phase that is none), and as GraphBuilder::build does.
Graph parse_fx_graph(std::string_view text, const std::string& name);

}  // namespace trainyard
