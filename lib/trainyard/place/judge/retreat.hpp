#pragma once

#include <utility>

#include "trainyard/place/kit/effort.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A schedule that was planned with a share of each memory.
template <class Outcome>
struct Retreat {
  Schedule schedule;
  Outcome outcome;
  bool settled;  // less memory would change nothing, or is not to be tried
};

/// Calls plan(percent), which returns a Retreat, for 100, 90, ... 50 % of each memory until one is settled. Returns the
/// schedule with the least outcome, the first of equals. A margin helps because a placer's account of memory is rough,
/// and a device filled to the brim scatters the ops that come late. On OutOfTime the best plan so far is returned; if
/// the first plan throws it, it is passed on.
template <class Plan>
Schedule best_retreat(const Plan& plan) {
  auto best = plan(100);
  bool settled = best.settled;
  for (int percent = 90; percent >= 50 && !settled; percent -= 10) {
    try {
      auto next = plan(percent);
      settled = next.settled;
      if (next.outcome < best.outcome) best = std::move(next);
    } catch (const OutOfTime&) {
      break;
    }
  }
  return std::move(best.schedule);
}

}  // namespace trainyard
