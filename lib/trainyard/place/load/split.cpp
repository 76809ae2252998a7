#include "trainyard/place/load/split.hpp"

#include <cassert>

namespace trainyard {

LoadPlacement placement_of(const Split& split, const Contraction& contraction, const LoadProblem& problem) {
  std::vector<std::size_t> used(problem.kind_count(), 0);
  std::vector<DeviceId> devices(contraction.size());
  for (const SplitPart& part : split.parts) {
    assert(part.replicas == 1);
    const DeviceId device = problem.devices_of(part.kind)[used[part.kind.index()]++];
    for (const BlockId block : part.blocks) devices[block.index()] = device;
  }
  return expand(contraction, problem, devices);
}

}  // namespace trainyard
