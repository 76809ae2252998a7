#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Time per step in the steady state of consecutive steps.
///
/// Let end(s) be the end of step s, for s = 1, ..., k, and d(s) = end(s) - end(s - 1):
///
///     k = 1        end(1)
///     periodic     the mean of one period, for the smallest p such that d(k - 3p + 1), ..., d(k) repeat the same p
///                  numbers three times
///     average      if there is no such p: (end(k) - end(h)) / (k - h), h = k / 2 rounded down
///     load         the op time per step of the busiest device, if that is longer: it is a lower bound for any sequence
///                  of steps, and the run was too short to reach it
///
/// Rounded to the nearest nanosecond, halves up.
struct SteadyState {
  enum class From : std::uint8_t { one_step, periodic, average, load };

  Nanoseconds step_time;
  From from = From::one_step;
  std::size_t period = 0;  // p if periodic

  friend bool operator==(const SteadyState&, const SteadyState&) = default;
};
/// "one-step", "periodic", "average", "load".
const char* name_of(SteadyState::From from);

/// The steady state for the ends of one or more steps. Throws InputError ("range") if `ends` is empty.
SteadyState steady_state(std::span<const Nanoseconds> ends, Nanoseconds busiest_load);

/// Result of simulating several training steps.
struct StepTimes {
  std::vector<Nanoseconds> ends;  // end of the last op of each step; ascending
  SteadyState steady;
  std::size_t ops_per_step = 0;  // op i of step s, from 0, is op s * ops_per_step + i of `problem`
  std::size_t ties = 0;          // dependencies from one step to the next; 0: steps only share devices
  Problem problem;               // the whole run, as unrolled by rewrite/steps.hpp
  Schedule schedule;
  Timeline timeline;
};

/// Simulates `steps` consecutive training steps (one or more). Every step has the same placement. An op waits only for
/// the updates of the parameters that it accesses (rewrite/steps.hpp), not for the end of the previous step.
///
///     fifo, priority    an op of an earlier step is more urgent than all ops of later steps, on devices and links;
///                       within a step the policy decides
///     strict            each device repeats its order for every step; links are fifo, or by priority
///                       (Schedule::urgent_links), earlier steps first
///
/// So the copies of an op start in the order of the steps: a copy is never ready later than the next one and never less
/// urgent. One step is simulate(). Throws InputError like simulate(), if the copies are too many, and for several steps
/// with a user-defined rule ("own-rule").
StepTimes simulate_steps(const Problem& problem, const Schedule& schedule, std::size_t steps);

}  // namespace trainyard
