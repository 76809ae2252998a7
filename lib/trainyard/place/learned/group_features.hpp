#pragma once

#include <cstddef>

#include "trainyard/learn/matrix.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/merge_colocate.hpp"

namespace trainyard::learned {

inline constexpr std::size_t kStaticFeatures = 7;

/// Mean time of an op over the devices that can run it, in ns.
double mean_time(const Problem& problem, OpId op);
/// Mean time of a transfer from each device to the next, in ns; 0 where there is but one.
double mean_transfer_time(const Problem& problem, TensorId tensor);

/// Static features of each group, whatever is decided, all between 0 and 1. Placeto's: its run time (mean over
/// the devices that can run it), the bytes that it sends to other groups, and those it holds for the step, each over
/// its maximum over the groups. These say nothing of how graphs differ, so besides: when its first op can start at the
/// earliest, and the longest path from one of its ops to the end, both without transfers and over the longest path of
/// all; the time to send what it sends, over that and its run time; its run time over what each device would have of an
/// even split, at most 1.
learn::Matrix<double> group_features(const Problem& problem, const OpGroups& groups);

}  // namespace trainyard::learned
