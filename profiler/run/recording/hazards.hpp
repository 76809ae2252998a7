#pragma once

#include <string>
#include <vector>

#include "profiler/run/recording/action_log.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Hazards among the actions of one step, in words and in their order; empty where there are none.
///
/// An op runs once, on the device of the schedule, alone there, in the order of a strict schedule, after all that it
/// must come after; it reads tensors that were written there and not yet freed, and writes into memory that was
/// allocated. A transfer begins when its tensor is whole where it comes from, once for each device (or for all of them
/// at once: one action each), and ends in memory that was allocated. Memory is freed once, when no op and no transfer
/// uses it, and not before its last reader; at the end all is freed. A tensor that is kept is freed last.
///
/// Ops of no duration take no device, and no turn in a strict order.
std::vector<std::string> hazards(const Problem& problem, const Schedule& schedule, const std::vector<Action>& actions);

}  // namespace trainyard
