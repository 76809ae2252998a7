#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// How an analytic plan becomes an order that the simulator keeps.
enum class PlanOrder : std::uint8_t {
  rank,    // priorities by the order in which the placer took the ops
  start,   // priorities by ascending planned start
  strict,  // each device runs its ops in the order of their planned starts
  best,    // the one of these with the best simulated outcome; ties to the first named
};

/// How good a schedule is, in simulation: first by bytes beyond the capacities, all devices together, then by makespan.
struct Outcome {
  Bytes excess;
  Nanoseconds makespan;

  friend auto operator<=>(const Outcome&, const Outcome&) = default;
};
Outcome simulated_outcome(const Problem& problem, const Schedule& schedule);

/// Gives the schedule, whose placement and plan are there, its policy and its order. `taken` are all ops in the order
/// in which the placer took them, each after all that it depends on. None of the three orders is always the best: on
/// training graphs `strict` wins where many short chains compete (unrolled LSTMs, by up to 13 %), and loses where
/// transfers are late and it waits for them (PCIe, by up to 8 %).
Outcome keep_order(const Problem& problem, std::vector<OpId> taken, PlanOrder order, Schedule& schedule);

}  // namespace trainyard
