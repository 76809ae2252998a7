#include "trainyard/rewrite/models.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

std::vector<std::string> distinct_names(std::span<const NamedGraph> models) {
  std::vector<std::string> names;
  for (const NamedGraph& model : models) {
    std::string name = model.name;
    for (std::size_t at = name.find(kModelMark); at != std::string::npos; at = name.find(kModelMark))
      name.replace(at, kModelMark.size(), ":");
    std::string distinct = name;
    for (int copy = 2; std::ranges::find(names, distinct) != names.end(); ++copy)
      distinct = name + "#" + std::to_string(copy);
    names.push_back(std::move(distinct));
  }
  return names;
}

}  // namespace

Graph union_graph(std::span<const NamedGraph> models) {
  for (const NamedGraph& model : models)
    if (model.graph == nullptr)
      refuse("no-graph", "the model '" + model.name + "' has no graph", "set NamedGraph::graph");
  if (models.size() == 1) return *models.front().graph;
  const std::vector<std::string> names = distinct_names(models);
  std::string title;
  for (const std::string& name : names) title += (title.empty() ? "" : "+") + name;
  GraphBuilder builder{title};
  for (std::size_t m = 0; m < models.size(); ++m) {
    const Graph& graph = *models[m].graph;
    const std::string prefix = names[m] + std::string{kModelMark};
    const auto mark = [&](std::string& name) {
      if (!name.empty()) name.insert(0, prefix);
    };
    for (const OpId op : graph.ops()) {
      OpSpec spec = spec_of(graph, op);
      mark(spec.name);
      mark(spec.layer);
      mark(spec.colocate);
      for (std::string& input : spec.inputs) mark(input);
      for (std::string& earlier : spec.after) mark(earlier);
      for (OutputSpec& output : spec.outputs) mark(output.name);
      builder.add(spec);
    }
  }
  return std::move(builder).build();
}

Models find_models(const Graph& graph) {
  Models models;
  std::map<std::string_view, ModelId> known;
  for (const OpId op : graph.ops()) {
    const std::string_view name = graph.name(op);
    const std::size_t at = name.find(kModelMark);
    if (at == std::string_view::npos || at == 0) {
      return {.of = IdMap<OpId, ModelId>(graph.op_count(), ModelId{0}), .names = {graph.name()}};
    }
    const auto [model, added] = known.try_emplace(name.substr(0, at), ModelId{models.names.size()});
    if (added) models.names.emplace_back(name.substr(0, at));
    models.of.push_back(model->second);
  }
  return models;
}

void check_models(const Models& models, std::size_t ops) {
  check_entries("the models", models.of.size(), ops, "ops");
  for (const ModelId model : models.of)
    check_id("unknown-model", "the model of an op", model.index(), models.size(), "models");
}

}  // namespace trainyard
