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

/// A graph cut into layers, in the order of their first forward ops.
///
/// An op is in the layer that the graph names for it; without a name, in that of the last of its producers in
/// topological order (of the last forward producer for a backward op, so that backward ops follow their forward ops),
/// else in that of its first reader. Where no op has a named layer, every forward op is a layer of its own.
struct Layers {
  IdMap<OpId, LayerId> of;
  std::vector<std::string> names;                    // by LayerId
  IdMap<LayerId, std::vector<OpId>> ops;             // in topological order
  std::size_t size() const { return names.size(); }  // at least 1
};

Layers find_layers(const Graph& graph);

/// "mixed_5b" of "mixed_5b/branch3x3".
std::string_view block_of(std::string_view layer);

}  // namespace trainyard
