#pragma once

#include <vector>

#include "trainyard/io/chakra/chakra_file.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// A run as Chakra traces, one for each device: its ops in the order in which they ran, each after the one before, and
/// a send and a receive for each transfer, or a shift's part; any other collective is one node on each of its devices,
/// of a group by number where it is not of all. What an op waits for on another device without a tensor is a message of
/// 1 byte. ASTRA-sim's feeder accepts them: orders are data_deps, parents come before children, ids are in the order of
/// the run, tags differ among the messages of two devices, a device without ops has one of no time.
///
/// Durations are whole microseconds: starts and ends are rounded, so that sums stay within one. What the format cannot
/// say: which transfer goes first on a link, the links themselves, memory.
std::vector<ChakraTrace> chakra_traces(const Problem& problem, const Placement& placement, const Timeline& timeline);

}  // namespace trainyard
