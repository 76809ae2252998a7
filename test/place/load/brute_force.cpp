#include "place/load/brute_force.hpp"

#include <algorithm>
#include <numeric>

#include "support/assignments.hpp"

namespace trainyard::test {
namespace {

/// Whether the devices can be ordered so that no edge goes backward.
bool is_chain(const Contraction& blocks, const std::vector<DeviceId>& chosen, std::size_t devices) {
  std::vector<std::size_t> place(devices);
  std::iota(place.begin(), place.end(), std::size_t{0});
  do {
    bool forward = true;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (const BlockId next : blocks.successors[BlockId{i}])
        forward = forward && place[chosen[i].index()] <= place[chosen[next.index()].index()];
    if (forward) return true;
  } while (std::ranges::next_permutation(place).found);
  return false;
}

}  // namespace

Picoseconds best_contiguous(const LoadProblem& problem, const LoadOptions& options) {
  const Contraction blocks = contract(problem);
  Picoseconds best = kInfiniteLoad;
  for_each_assignment(blocks.size(), problem.device_count(), [&](const std::vector<DeviceId>& chosen) {
    if (!is_chain(blocks, chosen, problem.device_count())) return;
    const LoadReport report = evaluate_load(problem, expand(blocks, problem, chosen), options);
    if (report.feasible()) best = std::min(best, report.value);
  });
  return best;
}

Picoseconds best_placement(const LoadProblem& problem, const LoadOptions& options) {
  Picoseconds best = kInfiniteLoad;
  for_each_assignment(problem.color_count(), problem.device_count(), [&](const std::vector<DeviceId>& chosen) {
    LoadPlacement placement(problem.op_count());
    for (const OpId op : problem.ops()) placement[op] = chosen[problem.op(op).color];
    const LoadReport report = evaluate_load(problem, placement, options);
    if (report.feasible()) best = std::min(best, report.value);
  });
  return best;
}

}  // namespace trainyard::test
