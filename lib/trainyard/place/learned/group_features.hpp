#pragma once

#include <cstddef>

#include "trainyard/learn/matrix.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/merge_colocate.hpp"

namespace trainyard::learned {

inline constexpr std::size_t kStaticFeatures = 7;

/// Mean time of an op over the devices that can run it, in ns.
double mean_time(const Problem& problem, OpId op);
/// Mean time of a transfer from each device to the next, in ns; 0 with a single device.
double mean_transfer_time(const Problem& problem, TensorId tensor);

/// Static features of each group, independent of all decisions, each between 0 and 1. Placeto's are its run time (mean
/// over the devices that can run it), the bytes that it sends to other groups, and the bytes that it holds for the
/// step, each over its maximum over the groups. These do not distinguish graphs, so there are four more. The earliest
/// start of its ops, and the longest path from one of its ops to the end, are both without transfers and over the
/// longest path of the graph. The third is the time to send its outputs, over that time plus its run time. The last is
/// its run time over each device's share of an even split, at most 1.
learn::Matrix<double> group_features(const Problem& problem, const OpGroups& groups);

}  // namespace trainyard::learned
