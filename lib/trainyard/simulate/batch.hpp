#pragma once

#include <span>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

/// Evaluates many schedules of one problem on several threads. Results come in the order of the schedules and are the
/// same for any number of threads. Keeps one workspace per thread from call to call.
///
/// Schedules must have passed check_schedule. One caller at a time.
class Batch {
 public:
  /// `threads` 0: as many as the machine runs at once.
  explicit Batch(const Problem& problem, unsigned threads = 0);

  std::vector<Nanoseconds> makespans(std::span<const Schedule> schedules);
  std::vector<MemoryPeaks> peaks(std::span<const Schedule> schedules);

 private:
  template <class Result, class Evaluate>
  std::vector<Result> each(std::span<const Schedule> schedules, const Evaluate& evaluate);

  std::vector<Simulation> simulations_;  // one per thread
};

}  // namespace trainyard
