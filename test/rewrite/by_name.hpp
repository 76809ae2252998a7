#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "trainyard/graph/graph.hpp"

namespace trainyard::test {

inline OpId op_named(const Graph& graph, const std::string& name) {
  const auto op = graph.find_op(name);
  REQUIRE_MESSAGE(op, name);
  return *op;
}

/// The names of an op's inputs.
inline std::vector<std::string> inputs_of(const Graph& graph, const std::string& op) {
  std::vector<std::string> names;
  for (const TensorId tensor : graph.inputs(op_named(graph, op))) names.emplace_back(graph.name(tensor));
  return names;
}

/// Counts collectives by description, as in "all-to-all 4096 of 2".
inline std::map<std::string, int> collectives(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const OpId op : graph.ops())
    if (const CollectiveTask* task = graph.collective(op))
      ++counts[std::string{name_of(task->kind)} + " " + std::to_string(task->bytes.count) + " of " +
               std::to_string(graph.after(op).size())];
  return counts;
}

}  // namespace trainyard::test
