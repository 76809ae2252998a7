#pragma once

#include <functional>
#include <vector>

#include "trainyard/place/auto/clusters.hpp"
#include "trainyard/place/judge/orders.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The schedule with clusters moved off full devices until it fits, or as near to that as the budget allows. Each time
/// the move is made that by estimates takes the most bytes beyond the capacities away (HeldMemory) for the time that is
/// lost (longer op times and transfers). Where none takes any away, the one that adds the least is the first of a chain
/// of as many moves at most as there are devices (ejection chains; Glover 1996): what it pushes out of the next device
/// goes on from there, or back, so that two clusters change places. No op goes where it has been since the best
/// schedule; a chain that comes to nothing better is undone, and the next one begins otherwise.
///
/// Outcome and order are those under the schedule's own policy, so that it had better be one which gives a moved op its
/// place. An evaluation is a move made and simulated. Ends too when the best is no shorter than `below`, as what is
/// moved off full devices seldom makes a schedule shorter. No random numbers.
Ordered relieved(const Problem& problem, const std::vector<Clusters>& levels, const Schedule& schedule,
                 const Budget& budget, Nanoseconds below = kLongestTime, std::function<bool()> stop = {});

}  // namespace trainyard
