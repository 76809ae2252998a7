#pragma once

#include <functional>
#include <vector>

#include "trainyard/place/auto/clusters.hpp"
#include "trainyard/place/judge/orders.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The schedule with clusters moved off full devices until it fits in memory, or comes as near to that as the budget
/// allows. Each step makes the move that by estimates removes the most excess (HeldMemory) for the time lost (longer op
/// times and transfers). If no move removes any, the one that adds the least starts an ejection chain (Glover 1996) of
/// at most as many moves as there are devices. Ops pushed out of the next device move on, or back, so that two clusters
/// can change places. No op returns to a device on which it has been since the best schedule. A chain without a better
/// schedule is undone, and the next one begins with another move.
///
/// Outcome and order are under the schedule's own policy, which should give a moved op its position by itself. An
/// evaluation is a move made and simulated. The search also ends once the best makespan is not below `below`, because
/// moves off full devices seldom shorten a schedule. Uses no random numbers.
Ordered relieved(const Problem& problem, const std::vector<Clusters>& levels, const Schedule& schedule,
                 const Budget& budget, Nanoseconds below = kLongestTime, std::function<bool()> stop = {});

}  // namespace trainyard
