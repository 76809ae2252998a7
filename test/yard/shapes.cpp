#include "trainyard/yard/shapes.hpp"

#include <doctest/doctest.h>

#include <string>
#include <tuple>

#include "support/refusal.hpp"

namespace trainyard {
namespace {

std::string code_of(const char* spec) {
  return test::code_of([&] { make_shape(spec); });
}

std::size_t edges(const Graph& graph) {
  std::size_t count = 0;
  for (const OpId op : graph.ops()) count += graph.inputs(op).size();
  return count;
}

TEST_CASE("shapes have the ops that their specs ask for, and the edges of their kind") {
  for (const auto& [spec, ops, reads] :
       {std::tuple{"chain:ops=10", 10, 9},             // each op except the first reads the one before
        std::tuple{"mesh:ops=12,width=4", 12, 9 + 8},  // 3 in each of 3 rows, and 4 between rows, twice
        std::tuple{"tree:ops=7", 7, 6},                // each op except the root is read once
        std::tuple{"tree:ops=8", 8, 7}, std::tuple{"chain:ops=1", 1, 0}}) {
    const std::string name = spec;
    CAPTURE(name);
    const Graph graph = make_shape(spec);
    CHECK(graph.op_count() == static_cast<std::size_t>(ops));
    CHECK(edges(graph) == static_cast<std::size_t>(reads));
  }
  for (const char* spec : {"layered:ops=50,width=5", "random:ops=50", "fork-join:ops=50,width=5", "fork-join:ops=2"})
    CHECK(make_shape(spec).op_count() == (std::string{spec} == "fork-join:ops=2" ? 2 : 50));
}

TEST_CASE("a shape of training has a backward op for each op, and 2 readers a tensor on a chain") {
  // t0 is read by f1 and b1, t1 by f2 and b2, and t2 by b2 alone.
  const Graph graph = make_shape("chain:ops=3,training=1");
  CHECK(graph.op_count() == 6);
  CHECK(edges(graph) == 2 + (2 + 2 + 1));  // 2 forward; b2 reads t1 and t2, b1 reads t0 and g2.1, b0 reads g1.0
}

TEST_CASE("a shape is the same for the same seed, and another for another") {
  const Graph a = make_shape("random:ops=30,seed=4"), b = make_shape("random:ops=30,seed=4");
  CHECK(a == b);
  CHECK_FALSE(a == make_shape("random:ops=30,seed=5"));
}

TEST_CASE("a spec that is no shape's is refused") {
  CHECK(code_of("ring:ops=3") == "unknown-network");
  CHECK(code_of("chain:length=3") == "unknown-parameter");
  CHECK(code_of("chain:ops") == "spec");
  CHECK(code_of("chain:ops=0") == "range");
  CHECK(code_of("chain:ops=3x") == "range");
  CHECK(code_of("chain:training=2") == "range");
  CHECK(code_of("chain:ops=3,ops=4") == "spec");
}

}  // namespace
}  // namespace trainyard
