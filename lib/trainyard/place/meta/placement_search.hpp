#pragma once

#include <cstdint>

#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct PlacementSearchOptions {
  /// The first state: the best of HEFT's and ETF's placements, if there is time for them, and everything on one
  /// device, or a random one.
  enum class Start : std::uint8_t { list, random } start = Start::list;
  /// The order under which placements are judged: fifo, priorities by upward rank (ranks.hpp), or that of these under
  /// which the first state is better.
  enum class Order : std::uint8_t { fifo, rank, best } order = Order::best;
};

/// What annealing(), tabu_search() and genetic() share. A state is a placement, a device for each colocation group, and
/// its cost its simulated Outcome under one order, the same for all: bytes beyond the capacities come before the
/// makespan. The best state gets the best order known for its placement (best_order), and where a list schedule that
/// the search began with is no worse, that one is the result.
///
/// The budget where none is given is that of FlexFlow (flexflow_budget); the best orders at the end are part of it. For
/// evaluations the result is the same on any number of threads. Of a budget in seconds, the search leaves as many as
/// best orders take by the start's evaluations; where these use up the time, what was evaluated is all, one list
/// schedule at least. Objective::makespan is the only one.
class PlacementSearch {
 public:
  PlacementSearch(const Problem& problem, const PlacementSearchOptions& options, const PlaceOptions& run);

  const Problem& problem() const { return problem_; }
  const PlaceOptions& run() const { return run_; }
  /// The first state, and its order.
  const Schedule& start() const { return start_; }
  const Outcome& start_outcome() const { return start_outcome_; }
  /// This placement under the same order.
  Schedule under_order(const Placement& placement) const;

  /// Evaluations that are left after `spent` of the search's own.
  std::uint64_t left(std::uint64_t spent) const;
  bool over(std::uint64_t spent) const { return left(spent) == 0 || late(); }
  /// Whether the seconds that are left are those of the best orders.
  bool late() const;
  /// The share of the budget that is spent, in evaluations or in seconds, 0 to 1.
  double share(std::uint64_t spent) const;
  void report(const Outcome& best, std::uint64_t spent) const;
  /// The result of a search with this best state, and its outcome.
  Schedule finish(const Placement& best, const Outcome& outcome, std::uint64_t spent) const;

 private:
  const Problem& problem_;
  const PlaceOptions& run_;
  Budget budget_;
  Effort effort_;
  Nanoseconds bound_;      // for reports
  Schedule list_, start_;  // list_: the best schedule that the search began with, whatever its order
  Outcome list_outcome_{}, start_outcome_{};
  std::uint64_t before_ = 0;  // evaluations of the start
  double evaluation_ = 0;     // seconds of one of these, at most
};

}  // namespace trainyard
