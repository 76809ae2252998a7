#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "trainyard/graph/graph.hpp"

namespace trainyard::test {

using Names = std::vector<std::string>;

inline Names op_names(const Graph& graph, Phase phase) {
  Names names;
  for (const OpId op : graph.ops())
    if (graph.phase(op) == phase) names.emplace_back(graph.name(op));
  return names;
}

inline OpId find(const Graph& graph, const std::string& name) {
  const auto op = graph.find_op(name);
  REQUIRE_MESSAGE(op.has_value(), name);
  return *op;
}

inline Names input_names(const Graph& graph, const std::string& op) {
  Names names;
  for (const TensorId tensor : graph.inputs(find(graph, op))) names.emplace_back(graph.name(tensor));
  return names;
}

/// The op's outputs as "name:bytes".
inline Names outputs(const Graph& graph, const std::string& op) {
  Names names;
  for (const TensorId tensor : graph.outputs(find(graph, op)))
    names.push_back(std::string{graph.name(tensor)} + ":" + std::to_string(graph.bytes(tensor).count));
  return names;
}

inline std::string group(const Graph& graph, const std::string& op) { return graph.colocation_group(find(graph, op)); }

}  // namespace trainyard::test
