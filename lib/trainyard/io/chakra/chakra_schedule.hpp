#pragma once

#include <vector>

#include "trainyard/io/chakra/chakra_file.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// A simulated run as Chakra traces, one for each device. A device's ops are listed in the order in which they ran,
/// each after the one before. Each transfer, and each part of a shift, becomes a send and a receive. Any other
/// collective becomes one node on each of its devices, with a numbered group unless all devices take part. A dependency
/// on an op of another device without a tensor becomes a message of 1 byte.
///
/// The traces satisfy ASTRA-sim's feeder: dependencies are data_deps, parents precede children, ids follow the order of
/// the run, messages between two devices have different tags, and a device without ops has one node of zero duration.
///
/// Durations are whole microseconds. Starts and ends are rounded, so that sums of durations are within one microsecond.
/// The format cannot express the order of transfers on a link, the links themselves, or memory.
std::vector<ChakraTrace> chakra_traces(const Problem& problem, const Placement& placement, const Timeline& timeline);

}  // namespace trainyard
