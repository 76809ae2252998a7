#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A problem as graph partitioners see it: its colocation groups, and the times of what they send each other.
///
///     weight(g, h) = sum over the tensors made in one of them and read in the other of
///                    (1 ns + mean transfer time over the ordered pairs of devices)
///
/// Neither the direction of edges nor the order of ops is part of it: that is what partitioners neglect.
struct GroupGraph {
  explicit GroupGraph(const Problem& problem);

  std::size_t size() const { return starts.size() - 1; }

  std::vector<std::uint32_t> starts{0};  // of each group in `neighbours`, and one more
  std::vector<GroupId> neighbours;       // ascending
  std::vector<std::int64_t> weights;     // of the edges, beside `neighbours`; each edge is there from both ends
  AbleDevices able;
  std::vector<std::int64_t> times;  // group x column of the problem's; meaningless where the group cannot run
  std::size_t columns = 0;

  std::int64_t time(GroupId group, std::size_t column) const { return times[group.index() * columns + column]; }
};

using GroupDevices = IdMap<GroupId, DeviceId>;

/// A device for each group, none for those that have to be placed elsewhere: gives every group one that can run it, and
/// moves groups off devices that hold more than `percent` of their memory, as MemoryLedger counts it, to where there is
/// room. Those that share most with their device stay; those that go, go to where they share most, then to the least
/// load. Throws InputError ("size") unless each group has an entry.
void settle_groups(const Problem& problem, const GroupGraph& graph, int percent, GroupDevices& devices);

/// The placement of the groups' devices, under fifo. Settled with 100 % of each memory; where that does not fit in
/// simulation with 90, 80, ... 50 % too, and the best outcome is kept.
Schedule settled_schedule(const Problem& problem, const GroupGraph& graph, const GroupDevices& devices);

}  // namespace trainyard
