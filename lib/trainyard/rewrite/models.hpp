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

/// Stands between a model's name and that of its op, tensor, layer or colocation group in a graph of several models.
inline constexpr std::string_view kModelMark = "::";

struct NamedGraph {
  std::string name;
  const Graph* graph = nullptr;
};

/// Several models as one graph, their disjoint union: op "conv1" of model "resnet50" is "resnet50::conv1", and so are
/// tensors, layers and colocation groups; the graph is called "resnet50+vgg16". Ops come model by model. Marks in the
/// names given become ":"; a name that is there already gets "#2", "#3", ... One model alone stays as it is.
/// Throws InputError ("no-graph") for a model without one.
Graph union_graph(std::span<const NamedGraph> models);

/// The model of each op, read off the names: the text before the first mark where every op's name has one;
/// otherwise the graph is one model, of its own name.
struct Models {
  IdMap<OpId, ModelId> of;
  std::vector<std::string> names;  // by ModelId, in the order of their first op

  std::size_t size() const { return names.size(); }
};
Models find_models(const Graph& graph);

/// Throws InputError ("size", "unknown-model") unless each of so many ops is of one of the models.
void check_models(const Models& models, std::size_t ops);

}  // namespace trainyard
