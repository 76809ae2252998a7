#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/delta.hpp"

namespace trainyard {

/// A Markov chain over placements (Metropolis et al. 1953; Hastings 1970), as FlexFlow searches them.
///
/// A state is a device for each colocation group. Its cost c is the makespan under the start's order: fifo, or its
/// priorities. A step proposes a random group on a random one of the devices that can run it, and accepts it with
/// probability
///
///     min(1, exp(-beta (c' - c) / scale))
///
/// where the scale is the cost of the best state so far. Since proposals are symmetric, states are visited in
/// proportion to exp(-beta c / scale) as long as the scale does not change. The random number for acceptance is drawn
/// first, so that the evaluation of a proposal that will be rejected can end early.
///
/// Addition: if memory may bind, a state with more bytes beyond the capacities is never accepted, one with fewer
/// always.
class PlacementChain {
 public:
  /// Infinite inverse temperature.
  static constexpr double kGreedy = -1;  // no worse state is ever accepted

  PlacementChain(const Problem& problem, Schedule start, Random random);
  /// Starts under fifo.
  PlacementChain(const Problem& problem, const Placement& start, Random random)
      : PlacementChain(problem, Schedule{.placement = start}, random) {}

  /// Samples proposals without accepting any. Returns the beta with which the share `taken` of the worse ones would be
  /// accepted at first; kGreedy if none is worse. `stop` is polled before each sample.
  double calibrated_beta(std::size_t samples, const std::function<bool()>& stop = {}, double taken = 0.3);
  void set_beta(double beta) { beta_ = beta; }
  /// Draws the longest makespan that is accepted after one of `now`.
  static Nanoseconds longest_accepted(Nanoseconds now, double beta, Nanoseconds scale, Random& random);
  /// Whether a step may, with probability 1/4, give a group's device to one of its neighbours instead, and after each
  /// of these, again with probability 1/4, to a neighbour of that.
  void set_propagation(bool yes) { propagation_ = yes; }
  /// Keeps the scale of costs at this value.
  void fix_scale(Nanoseconds scale) { fixed_scale_ = scale; }

  /// Whether no group has a choice of devices.
  bool is_fixed() const { return movable_.empty(); }
  /// Makes one proposal.
  void step();
  /// Continues from the best state.
  void rewind();

  Nanoseconds makespan() const { return current_.makespan; }
  const Outcome& outcome() const { return current_; }
  const Placement& placement() { return delta_.schedule().placement; }
  const Placement& best() const { return best_; }
  const Outcome& best_outcome() const { return best_outcome_; }
  std::uint64_t evaluations() const { return evaluations_; }
  std::uint64_t taken() const { return taken_; }

 private:
  /// Draws the ops to move and their device; returns false if nothing moves.
  bool propose();
  GroupId random_neighbour(GroupId group);
  Bytes excess();

  const Problem& problem_;
  AbleDevices able_;
  std::vector<GroupId> movable_;  // groups with a choice
  bool memory_binds_;
  Random random_;
  DeltaSimulation delta_;
  Outcome current_;
  Placement best_;
  Outcome best_outcome_;
  double beta_ = 50;
  bool propagation_ = false;
  std::optional<Nanoseconds> fixed_scale_;
  std::uint64_t evaluations_ = 0, taken_ = 0;
  std::vector<OpId> moving_;  // ops of the proposal
  DeviceId target_;
};

}  // namespace trainyard
