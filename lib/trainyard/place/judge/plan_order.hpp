#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Orders that an analytic plan gives the simulator.
enum class PlanOrder : std::uint8_t {
  rank,    // priorities by the order in which the placer took the ops
  start,   // priorities by ascending planned start
  strict,  // each device runs its ops in the order of their planned starts
  best,    // the one of these with the best simulated outcome; ties to the first named
};

/// Gives the schedule, whose placement and plan are there, its policy and its order, which is not `best`. `taken` are
/// all ops in the order in which the placer took them, each after all that it depends on.
void set_order(const Problem& problem, std::vector<OpId> taken, PlanOrder order, Schedule& schedule);

/// set_order() with any order, and the simulated outcome. None of the three orders is always the best: on training
/// graphs `strict` wins where many short chains compete (unrolled LSTMs, by up to 13 %), and loses where transfers are
/// late and it waits for them (PCIe, by up to 8 %).
/// Orders of `best` count only where they were simulated before `stop` says so, one at least.
Outcome keep_order(Evaluator& evaluator, const std::vector<OpId>& taken, PlanOrder order, Schedule& schedule,
                   const std::function<bool()>& stop = {});

}  // namespace trainyard
