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

/// Evaluates many schedules of one problem on several threads. Results are in the order of the schedules and
/// independent of the number of threads. One workspace per thread is kept from call to call.
///
/// The placement of each schedule is checked: throws InputError like check_schedule(), with the index of the first
/// invalid schedule before the message. Priorities and orders must have passed check_schedule() before. Not
/// thread-safe: one caller at a time.
class Batch {
 public:
  /// `threads` 0: the number of hardware threads.
  explicit Batch(const Problem& problem, unsigned threads = 0);

  std::vector<Nanoseconds> makespans(std::span<const Schedule> schedules);
  std::vector<MemoryPeaks> peaks(std::span<const Schedule> schedules);

  /// Writes the makespan of each row of `placements` to `results`: results.size() rows of op_count() device indices,
  /// one after another. The policy is fifo, or `priority` if that is not empty. Throws InputError like check_schedule()
  /// for the first invalid row, with its index before the message, and "size" if the sizes do not match; the contents
  /// of `results` are then unspecified. Each thread checks its own copy of a row.
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
  std::vector<std::pair<OpId, OpId>> together_;  // an op and another one of its colocation group
};

}  // namespace trainyard
