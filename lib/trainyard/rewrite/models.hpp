#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

using ModelId = Id<struct ModelTag>;

/// Separates a model's name from that of its op, tensor, layer or colocation group, in a graph of several models.
inline constexpr std::string_view kModelMark = "::";

struct NamedGraph {
  std::string name;
  const Graph* graph = nullptr;
};

/// Several models as one graph, their disjoint union. Op "conv1" of model "resnet50" becomes "resnet50::conv1", and
/// tensors, layers and colocation groups are named in the same way. The graph is called "resnet50+vgg16". Ops are
/// ordered by model. Marks in given names become ":"; a name that is already taken gets "#2", "#3", ... A single model
/// stays as it is. Throws InputError ("no-graph") for a model without a graph.
Graph union_graph(std::span<const NamedGraph> models);

/// The model of each op, read from its name: the text before the first mark, if every op's name has one. Otherwise the
/// graph is one model with the graph's name.
struct Models {
  IdMap<OpId, ModelId> of;
  std::vector<std::string> names;  // by ModelId, in the order of their first op

  std::size_t size() const { return names.size(); }
};
Models find_models(const Graph& graph);

/// Throws InputError ("size", "unknown-model") unless each of `ops` ops belongs to one of the models.
void check_models(const Models& models, std::size_t ops);

}  // namespace trainyard
