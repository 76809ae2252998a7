#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// The time per step once steps follow each other evenly.
///
/// With end(s) the end of step s, from 1 to k, and d(s) = end(s) - end(s - 1):
///
///     k = 1        end(1)
///     periodic     the smallest p for which d(k - 3p + 1) ... d(k) are three times the same p numbers: their mean
///     average      where there is no such p: (end(k) - end(h)) / (k - h), h = k / 2 rounded down
///     load         the busiest device's op time per step, where that is longer: no sequence of steps can beat it, and
///                  the run was too short to show it
///
/// Rounded to the nearest nanosecond, halves up.
struct SteadyState {
  enum class From : std::uint8_t { one_step, periodic, average, load };

  Nanoseconds step_time;
  From from = From::one_step;
  std::size_t period = 0;  // p where periodic

  friend bool operator==(const SteadyState&, const SteadyState&) = default;
};
/// "one-step", "periodic", "average", "load".
const char* name_of(SteadyState::From from);

/// What the ends of one step or more come to. Throws InputError ("range") where there is none.
SteadyState steady_state(std::span<const Nanoseconds> ends, Nanoseconds busiest_load);

/// Several training steps, run.
struct StepTimes {
  std::vector<Nanoseconds> ends;  // by step: the end of its last op; ascending
  SteadyState steady;
  std::size_t ops_per_step = 0;  // op i of step s, from 0, is op s * ops_per_step + i of the whole run
  std::size_t ties = 0;          // dependencies from one step to the next; 0: steps share devices alone
  Problem problem;               // the whole run, as rewrite/steps.hpp unrolls it
  Schedule schedule;
  Timeline timeline;
};

/// Runs `steps` training steps in sequence (one or more): every step has the same placement, and an op waits only for
/// the updates of the parameters that it touches (rewrite/steps.hpp), not for the end of the step before.
///
///     fifo, priority    an op of an earlier step is more urgent than all of later steps, on devices and links; within
///                       a step it goes by the policy
///     strict            the order of each device is that of one step, again and again; links are fifo, or by
///                       priority (Schedule::urgent_links), earlier steps first
///
/// So the copies of an op start in the order of the steps: a copy is never ready later than the next one, and never
/// less urgent. One step is simulate(). Throws InputError as simulate() does, where there are too many copies, and for
/// several steps under a rule of the caller's own ("own-rule").
StepTimes simulate_steps(const Problem& problem, const Schedule& schedule, std::size_t steps);

}  // namespace trainyard
