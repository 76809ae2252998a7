#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A problem as graph partitioners see it: its colocation groups, and the transfer times between them.
///
///     weight(g, h) = sum over the tensors made in one of them and read in the other of
///                    (1 ns + mean transfer time over the ordered pairs of devices)
///
/// Partitioners neglect the direction of edges and the order of ops, which are not part of it.
struct GroupGraph {
  explicit GroupGraph(const Problem& problem);

  std::size_t size() const { return starts.size() - 1; }

  std::vector<std::uint32_t> starts{0};  // offset of each group in `neighbours`, and an end marker
  std::vector<GroupId> neighbours;       // ascending
  std::vector<std::int64_t> weights;     // of the edges, parallel to `neighbours`; each edge is stored at both ends
  AbleDevices able;
  std::vector<std::int64_t> times;  // group x column of the problem; meaningless if the group cannot run there
  std::size_t columns = 0;

  std::int64_t time(GroupId group, std::size_t column) const { return times[group.index() * columns + column]; }
};

using GroupDevices = IdMap<GroupId, DeviceId>;

/// Repairs an assignment of groups to devices, none for groups that are still to be placed. Every group gets a device
/// that can run it, and groups are moved off devices that hold more than `percent` of their memory, as MemoryLedger
/// counts it, to devices with room. The groups that share most with their device stay. The others go to the device with
/// which they share most, then to the one with the least load. Throws InputError "size" unless each group has an entry.
void settle_groups(const Problem& problem, const GroupGraph& graph, int percent, GroupDevices& devices);

/// The placement by the groups' devices, under fifo. It is settled with 100 % of each memory; if that does not fit in
/// simulation, also with 90, 80, ... 50 %, and the best outcome is kept.
Schedule settled_schedule(const Problem& problem, const GroupGraph& graph, const GroupDevices& devices);

}  // namespace trainyard
