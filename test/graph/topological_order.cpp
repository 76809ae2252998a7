#include "trainyard/graph/topological_order.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/graph/strong_components.hpp"

using namespace trainyard;
using Rows = std::vector<std::vector<std::size_t>>;

TEST_CASE("each node comes after its predecessors; among the free ones the lowest goes first, or whichever is asked") {
  const Rows diamond{{2, 3}, {3}, {4}, {4}, {}};  // 0 -> 2 -> 4, 0 and 1 -> 3 -> 4
  CHECK(topological_order<std::size_t>(5, successors_in(diamond)) == std::vector<std::size_t>{0, 1, 2, 3, 4});
  CHECK(topological_order<std::size_t>(5, successors_in(diamond), std::greater{}) ==
        std::vector<std::size_t>{1, 0, 3, 2, 4});
}

TEST_CASE("an edge that is given twice counts twice, on ids as on numbers") {
  const auto twice = [](OpId op, const auto& visit) {
    if (op == OpId{1})
      for (int i = 0; i < 2; ++i) visit(OpId{0});
  };
  CHECK(topological_order<OpId>(2, twice) == std::vector<OpId>{OpId{1}, OpId{0}});
}

TEST_CASE("what is on a cycle, or behind one, has no place in the order") {
  const Rows rows{{}, {2}, {1, 3}, {}};  // 1 <-> 2 -> 3
  CHECK(topological_order<std::size_t>(4, successors_in(rows)) == std::vector<std::size_t>{0});
}

TEST_CASE("nodes that reach each other are one component; components are in topological order") {
  // Edges 3 <-> 4 -> 0 -> 1 -> 2 -> 0. Node 5 is alone: it is found last and so comes first.
  CHECK(strong_components(6, {{3, 4}, {4, 3}, {4, 0}, {0, 1}, {1, 2}, {2, 0}}) ==
        std::vector<std::size_t>{2, 2, 2, 1, 1, 0});
}
