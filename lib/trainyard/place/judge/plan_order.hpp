#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Order of ops that the simulator takes over from an analytic plan.
enum class PlanOrder : std::uint8_t {
  rank,    // priorities by the order in which the placer took the ops
  start,   // priorities by ascending planned start
  strict,  // each device runs its ops in the order of their planned starts
  best,    // the order above with the best simulated outcome; ties go to the first
};

/// Sets policy and order of a schedule that has a placement and a plan; `order` is not `best`. `taken` has all ops in
/// the order in which the placer took them, each after all ops that it depends on.
void set_order(const Problem& problem, std::vector<OpId> taken, PlanOrder order, Schedule& schedule);

/// set_order() with any order; returns the simulated outcome. None of the three orders is always the best. On training
/// graphs `strict` wins if many short chains compete (unrolled LSTMs, by up to 13 %), and loses if it waits for late
/// transfers (PCIe, by up to 8 %). For `best`, orders are simulated until `stop` returns true, at least one.
Outcome keep_order(Evaluator& evaluator, const std::vector<OpId>& taken, PlanOrder order, Schedule& schedule,
                   const std::function<bool()>& stop = {});

}  // namespace trainyard
