#pragma once

#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

/// True if some schedule of the problem may exceed the capacity of a device. False if one device could hold everything
/// at once that all ops and tensors ever hold, since a device holds each at most once.
bool memory_may_bind(const Problem& problem);

/// Simulates schedules of one problem, which is prepared once. Looks at memory only if it may bind. One per thread.
class Evaluator {
 public:
  explicit Evaluator(const Problem& problem) : simulation_(problem), memory_binds_(memory_may_bind(problem)) {}

  const Problem& problem() const { return simulation_.problem(); }
  bool memory_binds() const { return memory_binds_; }

  /// The schedule must have passed check_schedule.
  Outcome outcome(const Schedule& schedule);
  Simulation& simulation() { return simulation_; }

 private:
  Simulation simulation_;
  bool memory_binds_;
};

/// The excess: bytes beyond the capacities, summed over devices.
Bytes excess_of(const Problem& problem, const MemoryPeaks& peaks);

}  // namespace trainyard
