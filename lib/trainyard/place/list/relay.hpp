#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// All devices in blocks of so many (the last may have fewer), each of devices that are near each other: always the
/// fastest that is left, of those alike the one nearest to the block. How fast a device is, the time of all ops there
/// says (one that cannot run as many comes later); how near to a block, that of all tensors to and from its devices; a
/// new block begins near the one before it. Ties go to the lower id.
std::vector<std::vector<DeviceId>> device_blocks(const Problem& problem, std::size_t size);

struct RelayOptions {
  std::optional<std::size_t> devices = {};  // to a block; none: as many as are best
  std::vector<std::function<Schedule(const Problem&, const std::function<bool()>& stop)>> by = {};
  std::function<bool()> stop = {};  // asked all the time: ends with the best so far, or throws OutOfTime
};

/// Fewer devices than there are, where transfers take longer than what more of them save; and one block of devices
/// after the other where one has not the memory for all ops:
///
///     stages     colocation groups in topological order of their first ops, cut so that each of the blocks, as few as
///                have room with a tenth to spare, holds the same share of its memory (MemoryLedger::need); what
///                follows the forward pass and has no group there is with the first stage that it reads from
///     placement  that of a list scheduler, m-etf or heft, for each stage alone, on the cluster of its block alone
///     blocks     of three quarters of all devices, a half, three eighths, and so on, as long as the op time that they
///                share, sum of shortest times / devices, is less than the best so far; at last of all devices. The
///                best in simulation is the answer
///
/// The schedule of one stage is that of its placer; of several it is fifo or by upward rank, whichever is shorter.
/// Beyond 20,000 pairs of an op and a device blocks are halved, and m-etf places alone; on more than 1,000 ops the size
/// of the blocks is what is best for the first 1,000.
Schedule relay(const Problem& problem, const RelayOptions& options = {});

/// The best of its schedules on fewer devices than all, where they could be shorter than this: sizes of blocks that
/// cannot be are left out. Nothing where there is none, or `stop` ends it before the first.
std::optional<Schedule> relay_on_fewer(const Problem& problem, Nanoseconds than,
                                       const std::function<bool()>& stop = {});

}  // namespace trainyard
