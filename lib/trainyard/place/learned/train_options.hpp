#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace trainyard::learned {

struct TrainOptions {
  std::size_t updates = 100;
  std::size_t episodes = 8;  // an update, over all tasks
  /// Updates before those, in which a network that has a teacher imitates it, without simulations; and the
  /// devices to which the teacher leads on each task (empty: a heuristic's of the network's own).
  std::size_t imitation = 0;
  std::vector<std::vector<std::uint32_t>> targets = {};
  unsigned threads = 1;  // the result is the same for any number; 0: as many as the machine runs at once
  std::uint64_t seed = 1;
  bool intermediate =
      false;  // a reward after each decision, their sum the same; needs decisions that each place a group
  /// What a reward counts that comes a decision later, with intermediate rewards.
  double discount = 0.8;
  /// Every second episode of each task goes on from the best placement seen, and visits the groups in any order, where
  /// the network improves a start. The curve and what is kept look at the others alone.
  bool from_best = true;
  double imitation_rate = 1e-2;
  double first_rate = 1e-2, last_rate = 1e-3;
  double first_bonus = 0.001, last_bonus = 0.0001;  // of the entropy
  double clip = 1.25;                               // the gradient's norm
  std::size_t window = 10;                          // earlier episodes of a task that its baseline looks at
  /// Asked before each update and around each of its episodes: the share of the time that is used up. The training ends
  /// where what is left is what the last decisions take. None: the updates alone count.
  std::function<double()> used = {};
  std::function<void(std::size_t update, double mean_cost)> progress = {};
};

/// Costs of a task: those of the start and the best placement seen, in ns with the penalty for memory.
struct TaskCosts {
  double start = 0, best = 0;
};

struct TrainResult {
  std::vector<TaskCosts> costs;
  /// The best placement seen of each task, and its cost; at worst the task's start.
  std::vector<std::vector<std::uint32_t>> best;  // device by group, as PlacementTask numbers them
  std::vector<double> best_cost;
  std::vector<double> curve;              // of each update, the mean over its episodes of cost / the start's
  std::size_t updates = 0, episodes = 0;  // done
  /// Placements simulated: with intermediate rewards, all that episodes pass, and those that the policy looked ahead
  /// at.
  std::size_t evaluations = 0;
  std::size_t evaluations_to_best = 0;  // when the last improvement was found
  /// Evaluations without looks ahead, as Placeto's paper counts: a placement for each decision that changed one.
  std::size_t passed = 0, passed_to_best = 0;
};

}  // namespace trainyard::learned
