#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/place/exact/model.hpp"
#include "trainyard/place/exact/sequencing.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::detail {

/// Turns orders of ops into schedules, simulates them, and keeps the best that fits in memory.
class Realization {
 public:
  Realization(const ExactModel& model, SearchState& state);

  /// Tries the ops in the order of their starts, as Policy::strict and as Policy::priority. Returns the shorter
  /// makespan. A schedule below the limit that does not fit in memory counts as kLongestTime; one that fits becomes the
  /// best, and its makespan the limit.
  std::int64_t try_order(const std::vector<std::uint32_t>& device, const std::vector<std::int64_t>& start);
  /// One policy each; `order` lists all ops, the first to run or the highest priority first.
  std::int64_t try_priority(const std::vector<std::uint32_t>& device, const std::vector<std::uint32_t>& order);
  std::int64_t try_strict(const std::vector<std::uint32_t>& device, const std::vector<std::uint32_t>& order);

  const std::optional<Schedule>& best() const { return best_; }

 private:
  std::int64_t try_schedule(const Schedule& schedule);
  void place(Schedule& schedule, const std::vector<std::uint32_t>& device) const;

  const ExactModel& model_;
  SearchState& state_;
  Simulation simulation_;
  std::vector<std::uint32_t> position_;  // of an op in the topological order
  Schedule strict_, priority_;
  std::vector<std::uint32_t> order_;
  std::optional<Schedule> best_;
};

/// Tries every strict order of the placement that could be shorter than the limit. Orders that differ only in how the
/// devices interleave are tried once, as the lexicographically least of them.
void try_all_strict_orders(const ExactModel& model, const Tasks& tasks, const std::vector<std::uint32_t>& device,
                           SearchState& state, Realization& realization);

}  // namespace trainyard::detail
