#include "trainyard/throughput/contraction.hpp"

#include <doctest/doctest.h>

#include "support/support.hpp"
#include "throughput/sketch.hpp"

using namespace trainyard;
using trainyard::test::LoadSketch;
using trainyard::test::ms;

namespace {

std::vector<std::size_t> sizes(const Contraction& blocks) {
  std::vector<std::size_t> list;
  for (const auto& ops : blocks.ops) list.push_back(ops.size());
  return list;
}

}  // namespace

TEST_CASE("ops of one color are one block, and what that closes to a cycle joins it") {
  // 0 -> 1 -> 2, with 0 and 2 of one color: 1 lies between them, so all three form a block.
  const LoadProblem problem = LoadSketch{
      .nodes = {{.gpu = 1, .color = 5}, {.gpu = 2, .color = 6}, {.gpu = 4, .color = 5}, {.gpu = 8, .color = 7}},
      .edges = {
          {0, 1}, {1, 2}, {2, 3}}}.problem();
  const Contraction blocks = contract(problem);
  CHECK(sizes(blocks) == std::vector<std::size_t>{3, 1});
  CHECK(blocks.forward[0] == ms(7));
  CHECK(blocks.successors[BlockId{0}].size() == 1);
}

TEST_CASE("a backward op without a forward one is held in its place by the mirror of its edges") {
  // Forward 0 -> 1; backward 2 (of 1) -> 3 (orphan) -> 4 (of 0): the orphan belongs between 0 and 1.
  const LoadProblem problem = LoadSketch{
      .nodes = {{.gpu = 1, .color = 0},
                {.gpu = 1, .color = 1},
                {.gpu = 1, .backward = true, .color = 1},
                {.gpu = 1, .backward = true, .color = 2},
                {.gpu = 1, .backward = true, .color = 0}},
      .edges = {
          {0, 1}, {2, 3}, {3, 4}}}.problem();
  const Contraction blocks = contract(problem);
  REQUIRE(blocks.size() == 3);
  CHECK(blocks.ops[1] == std::vector<OpId>{OpId{3}});
  CHECK(blocks.predecessors[BlockId{1}].front() == BlockId{0});
  CHECK(blocks.predecessors[BlockId{2}].size() == 2);
}

TEST_CASE("ops that take no time join their only neighbour, again and again") {
  // 0 and 1 take no time: 0 joins 1, then 1 joins 2. 4 takes no time either, but has two neighbours and stays.
  const LoadProblem problem =
      LoadSketch{.nodes = {{.gpu = 0}, {.gpu = 0}, {.gpu = 3}, {.gpu = 3}, {.gpu = 0}, {.gpu = 3}},
                 .edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}}
          .problem();
  CHECK(sizes(contract(problem)) == std::vector<std::size_t>{3, 1, 1, 1});
}

TEST_CASE("an op of no time whose backward op takes time stays") {
  const LoadProblem problem = LoadSketch{
      .nodes = {{.gpu = 0, .color = 0}, {.gpu = 3, .color = 1}, {.gpu = 2, .backward = true, .color = 0}},
      .edges = {{0, 1}}}.problem();
  CHECK(contract(problem).size() == 2);
}

TEST_CASE("blocks are in topological order and hold every op once") {
  Random random{12};
  for (int round = 0; round < test::rounds(300); ++round) {
    const LoadProblem problem = test::random_sketch(random, 12, round % 2 == 0).problem();
    const Contraction blocks = contract(problem);
    std::vector<int> seen(problem.op_count(), 0);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      for (const OpId op : blocks.ops[i]) ++seen[op.index()];
      for (const BlockId before : blocks.predecessors[BlockId{i}]) CHECK(before.index() < i);
    }
    CHECK(seen == std::vector<int>(problem.op_count(), 1));
  }
}
