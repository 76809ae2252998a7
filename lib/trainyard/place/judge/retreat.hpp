#pragma once

#include <utility>

#include "trainyard/place/kit/effort.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A schedule that counts on a share of each memory only.
template <class Outcome>
struct Retreat {
  Schedule schedule;
  Outcome outcome;
  bool settled;  // to count on less would change nothing, or is not wanted
};

/// Asks plan(percent), a Retreat, for a schedule that counts on 100, 90, ... 50 % of each memory until it is settled,
/// and gives the one of the least outcome, the first of equals. A placer's account of memory is a rough one, and a
/// device filled to the brim drives what comes late apart. Where time is up (OutOfTime) those before it count; thrown
/// on by the first.
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
