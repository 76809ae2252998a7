#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "trainyard/graph/graph.hpp"

namespace trainyard::test {

inline OpId op_named(const Graph& graph, const std::string& name) {
  const auto op = graph.find_op(name);
  REQUIRE_MESSAGE(op, name);
  return *op;
}

/// The names of what the op reads.
inline std::vector<std::string> inputs_of(const Graph& graph, const std::string& op) {
  std::vector<std::string> names;
  for (const TensorId tensor : graph.inputs(op_named(graph, op))) names.emplace_back(graph.name(tensor));
  return names;
}

}  // namespace trainyard::test
