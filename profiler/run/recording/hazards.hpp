#pragma once

#include <string>
#include <vector>

#include "profiler/run/recording/action_log.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Hazards among the actions of one step, in words and in order; empty if there are none. The rules:
///
/// An op runs once, on its device of the schedule, alone there, in the order of a strict schedule, and after its
/// predecessors. It reads tensors that were written there and not yet freed, and writes into allocated memory. A
/// transfer begins when its tensor is complete at the source, once per target device (one action each if it serves
/// several at once), and ends in allocated memory. Memory is freed once, after its last reader, while no op or transfer
/// uses it; at the end all of it is free. A tensor that is kept is freed last.
///
/// Ops of zero duration occupy no device, and take no turn in a strict order.
std::vector<std::string> hazards(const Problem& problem, const Schedule& schedule, const std::vector<Action>& actions);

}  // namespace trainyard
