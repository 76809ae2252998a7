#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

/// Evaluates many schedules of one problem on several threads. Results come in the order of the schedules and are the
/// same for any number of threads. Keeps one workspace per thread from call to call.
///
/// The placement of each schedule is checked: InputError as check_schedule() throws it, with the number of the first
/// that is at fault before the message. Priorities and orders must have passed it. One caller at a time.
class Batch {
 public:
  /// `threads` 0: as many as the machine runs at once.
  explicit Batch(const Problem& problem, unsigned threads = 0);

  std::vector<Nanoseconds> makespans(std::span<const Schedule> schedules);
  std::vector<MemoryPeaks> peaks(std::span<const Schedule> schedules);

  /// The makespan of each row of `placements` (results.size() rows of op_count() device indices, one after the other),
  /// into `results`: under fifo, or by `priority` where it is not empty. A row is checked here, from the thread's own
  /// copy of it. Throws InputError as check_schedule does for the first row that is at fault, with its number before
  /// the message; and "size" where the sizes do not fit. What is in `results` then is not said.
  void makespans(std::span<const std::int32_t> placements, const IdMap<OpId, double>& priority,
                 std::span<Nanoseconds> results);

  const Problem& problem() const { return simulations_.front().problem(); }

 private:
  template <class Evaluate>
  void each(std::size_t count, const Evaluate& evaluate);
  template <class Evaluate>
  void each_checked(std::span<const Schedule> schedules, const Evaluate& evaluate);
  bool is_valid(const Placement& placement) const;

  std::vector<Simulation> simulations_;          // one per thread
  std::vector<std::uint8_t> can_run_;            // op x device; empty: every device runs every op
  std::vector<std::pair<OpId, OpId>> together_;  // an op, and another of its colocation group
};

}  // namespace trainyard
