#pragma once

#include <cstdint>

#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct PlacementSearchOptions {
  /// The first state: the best of HEFT's and ETF's placements (as far as time allows) and of everything on one device;
  /// or a random placement.
  enum class Start : std::uint8_t { list, random } start = Start::list;
  /// The order under which placements are evaluated: fifo, priorities by upward rank (ranks.hpp), or the one of these
  /// two that is better for the first state.
  enum class Order : std::uint8_t { fifo, rank, best } order = Order::best;
};

/// Common part of annealing(), tabu_search() and genetic(). A state is a placement, with a device for each colocation
/// group. Its cost is its simulated Outcome under one order, which is the same for all states: excess first, then
/// makespan. The best state gets the best order known for its placement (best_order). If a list schedule that the
/// search began with is no worse, that one is the result.
///
/// The default budget is that of FlexFlow (flexflow_budget); the best orders at the end are part of it. For a budget in
/// evaluations the result is the same on any number of threads. From a budget in seconds, the search leaves time for
/// the best orders, estimated by the start's evaluations. If the start uses up the seconds, the result is the best of
/// what was evaluated, at least one list schedule. The objective is always Objective::makespan.
class PlacementSearch {
 public:
  PlacementSearch(const Problem& problem, const PlacementSearchOptions& options, const PlaceOptions& run);

  const Problem& problem() const { return problem_; }
  const PlaceOptions& run() const { return run_; }
  /// The first state, with the order of the search.
  const Schedule& start() const { return start_; }
  const Outcome& start_outcome() const { return start_outcome_; }
  /// The placement under the order of the search.
  Schedule under_order(const Placement& placement) const;

  /// Evaluations left after the search itself has spent `spent`.
  std::uint64_t left(std::uint64_t spent) const;
  bool over(std::uint64_t spent) const { return left(spent) == 0 || late(); }
  /// Whether the seconds left are only enough for the best orders at the end.
  bool late() const;
  /// The share of the budget that is spent, 0 to 1: of evaluations or of seconds, whichever is larger.
  double share(std::uint64_t spent) const;
  void report(const Outcome& best, std::uint64_t spent) const;
  /// The result of a search that ended with this best state and outcome.
  Schedule finish(const Placement& best, const Outcome& outcome, std::uint64_t spent) const;

 private:
  const Problem& problem_;
  const PlaceOptions& run_;
  Budget budget_;
  Effort effort_;
  Nanoseconds bound_;      // for reports
  Schedule list_, start_;  // list_: best schedule that the search began with, under its own order
  Outcome list_outcome_{}, start_outcome_{};
  std::uint64_t before_ = 0;  // evaluations by the start
  double evaluation_ = 0;     // seconds of an evaluation, the longest so far
};

}  // namespace trainyard
