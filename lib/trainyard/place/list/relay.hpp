#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// All devices in blocks of `size` (the last may be smaller), each of devices that are near each other. A block takes
/// the fastest device left; of equally fast ones, the nearest to the block. Devices that can run more ops come first,
/// then those with the least time for all ops. The distance to a block is the time of all tensors to and from its
/// devices; a new block begins near the one before it. Ties go to the lower id.
std::vector<std::vector<DeviceId>> device_blocks(const Problem& problem, std::size_t size);

/// Options of relay(). `by`: the list schedulers that place a stage on a block; empty: m-etf, and on small problems
/// heft.
struct RelayOptions {
  std::optional<std::size_t> devices = {};  // devices in a block; none: the best number
  std::vector<std::function<Schedule(const Problem&, const std::function<bool()>& stop)>> by = {};
  std::function<bool()> stop = {};  // polled; true ends with the best so far, or throws OutOfTime
};

/// Placement on blocks of devices. It uses fewer devices than all if transfers on more of them cost more time than they
/// save, and one block after the other if a single block has too little memory for all ops:
///
///     stages     colocation groups in topological order of their first ops, cut so that each block holds the same
///                share of its memory (MemoryLedger::need). The blocks are as few as have room with a tenth to spare.
///                A group whose first op follows the forward pass is in the first stage that this op reads from
///     placement  that of a list scheduler, m-etf or heft, for each stage alone, on the cluster of its block alone
///     blocks     of three quarters of all devices, a half, three eighths, and so on, and at last of all devices. A
///                size is tried only if the op time shared by its devices, sum of shortest times / devices, is less
///                than the best makespan so far. The best schedule in simulation is the result
///
/// One stage keeps its placer's schedule; several are run under fifo or by upward rank, whichever is shorter. Beyond
/// 20,000 (op, device) pairs block sizes are only halved, and m-etf places alone. On more than 1,000 ops, block size
/// and list scheduler are those that are best for the first 1,000.
Schedule relay(const Problem& problem, const RelayOptions& options = {});

/// The best schedule of relay() with blocks of fewer devices than all, trying only block sizes that could give a
/// makespan below `than`. Nothing if there is none, or if `stop` ends it before the first schedule.
std::optional<Schedule> relay_on_fewer(const Problem& problem, Nanoseconds than,
                                       const std::function<bool()>& stop = {});

}  // namespace trainyard
