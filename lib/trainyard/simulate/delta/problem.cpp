#include "trainyard/simulate/delta/problem.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainyard::detail {

DeltaProblem::DeltaProblem(const Problem& problem) : dense(problem) {
  std::vector<std::pair<Position, TensorPosition>> reads;
  std::vector<std::pair<Position, Position>> waits;
  for (const Position op : dense.positions()) {
    for (const TensorPosition tensor : dense.graph.outputs(op)) {
      producer[tensor] = op;
      for (const Edge edge : dense.graph.edges(tensor)) reads.emplace_back(dense.graph.consumer(edge), tensor);
    }
    dense.graph.each_before(op, [&](Position later) { waits.emplace_back(later, op); });
  }
  inputs = {dense.ops, reads};
  after = {dense.ops, waits};
  for (std::size_t at = dense.ops; at-- > 0;) {
    const Position op{at};
    const Nanoseconds through = tail[op] + problem.shortest(dense.op_id(op));
    for (const TensorPosition input : inputs[op]) tail[producer[input]] = std::max(tail[producer[input]], through);
    for (const Position earlier : after[op]) tail[earlier] = std::max(tail[earlier], through);
  }
}

}  // namespace trainyard::detail
