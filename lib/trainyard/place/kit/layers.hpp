#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

using LayerId = Id<struct LayerTag>;

/// The layers of a graph, numbered by their first forward ops.
///
/// An op is in the layer that the graph names for it. An op without a layer name is in the layer of its last producer
/// in topological order; a backward op in that of its last forward producer, so that backward ops follow their forward
/// ops. An op without producers is in the layer of its first reader. If no op has a layer name, every forward op is a
/// layer of its own.
struct Layers {
  IdMap<OpId, LayerId> of;
  std::vector<std::string> names;                    // by LayerId
  IdMap<LayerId, std::vector<OpId>> ops;             // in topological order
  std::size_t size() const { return names.size(); }  // at least 1
};

Layers find_layers(const Graph& graph);

/// The block of a layer, the name up to the first slash: "mixed_5b" for "mixed_5b/branch3x3".
std::string_view block_of(std::string_view layer);

/// The block's name without the number at its end: "h." for "h.11"; empty if it has none.
std::string_view stem_of(std::string_view block);

}  // namespace trainyard
