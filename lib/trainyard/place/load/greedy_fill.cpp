#include "trainyard/place/load/greedy_fill.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/throughput/contraction.hpp"

namespace trainyard {
namespace {

/// Reverse postorder of a depth-first walk from the first block on.
std::vector<BlockId> depth_first(const Contraction& blocks) {
  std::vector<BlockId> order;
  std::vector<bool> seen(blocks.size(), false);
  std::vector<std::pair<BlockId, std::size_t>> path;  // block, index of its next successor
  for (std::size_t root = 0; root < blocks.size(); ++root) {
    if (seen[root]) continue;
    seen[root] = true;
    path.emplace_back(BlockId{root}, 0);
    while (!path.empty()) {
      const BlockId block = path.back().first;
      const auto next = blocks.successors[block];
      if (path.back().second == next.size()) {
        order.push_back(block);
        path.pop_back();
        continue;
      }
      const BlockId to = next[path.back().second++];
      if (seen[to.index()]) continue;
      seen[to.index()] = true;
      path.emplace_back(to, 0);
    }
  }
  std::ranges::reverse(order);
  return order;
}

}  // namespace

LoadPlacement greedy_fill(const LoadProblem& problem) {
  const Contraction blocks = contract(problem, {.merge_idle = false});
  const std::size_t kinds = problem.kind_count();
  std::vector<DeviceId> accelerators, hosts;
  std::vector<std::int64_t> room(problem.device_count(), std::numeric_limits<std::int64_t>::max());
  for (const DeviceId device : problem.devices()) {
    const LoadKind& kind = problem.kind(problem.kind_of(device));
    (kind.pays ? accelerators : hosts).push_back(device);
    if (kind.memory) room[device.index()] = kind.memory->count;
  }
  std::vector<DeviceId> devices(blocks.size());
  std::size_t current = 0;  // index in `accelerators`
  for (const BlockId block : depth_first(blocks)) {
    const std::int64_t size = blocks.sizes[block.index()].count;
    const auto can = [&](DeviceId device) {
      return blocks.forward[block.index() * kinds + problem.kind_of(device).index()] != kNeverLoad;
    };
    const bool fits_any = std::ranges::any_of(accelerators, [&](DeviceId device) {
      const auto& memory = problem.kind(problem.kind_of(device)).memory;
      return can(device) && (!memory || size <= memory->count);
    });
    DeviceId to = DeviceId::none();
    if (fits_any || hosts.empty()) {
      while (current < accelerators.size() && size > room[accelerators[current].index()]) ++current;
      if (current < accelerators.size() && can(accelerators[current])) to = accelerators[current];
    }
    if (to.is_none() && !hosts.empty() && can(hosts.front())) to = hosts.front();
    if (to.is_none())
      for (const DeviceId device : problem.devices())
        if (can(device) && (to.is_none() || room[device.index()] > room[to.index()])) to = device;
    if (to.is_none())
      refuse("no-split",
             "no device can run all ops that must be on the same device as '" +
                 problem.op(blocks.ops[block.index()].front()).name + "'",
             "these ops are in one colocation group, or lie between ops of it");
    devices[block.index()] = to;
    if (room[to.index()] != std::numeric_limits<std::int64_t>::max()) room[to.index()] -= size;
  }
  return expand(blocks, problem, devices);
}

}  // namespace trainyard
