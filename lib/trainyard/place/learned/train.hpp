#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainyard/place/learned/policy_network.hpp"

namespace trainyard::learned {

struct TrainOptions {
  std::size_t updates = 100;
  std::size_t episodes = 8;  // an update, over all tasks
  unsigned threads = 1;      // the result is the same for any number; 0: as many as the machine runs at once
  std::uint64_t seed = 1;
  bool intermediate =
      false;  // a reward after each decision, their sum the same; needs decisions that each place a group
  double first_rate = 3e-3, last_rate = 3e-4;
  double first_bonus = 0.1, last_bonus = 0.001;  // of the entropy
  double clip = 1.25;                            // the gradient's norm
  std::size_t window = 10;                       // earlier episodes of a task that its baseline looks at
  /// Asked before each update: the share of the time that is used up; 1 or more ends the training. None: the updates
  /// alone count.
  std::function<double()> used = {};
  std::function<void(std::size_t update, double mean_cost)> progress = {};
};

struct TrainResult {
  /// Of each task the best placement seen, and its cost; at worst the task's start.
  std::vector<Devices> best;
  std::vector<double> best_cost;
  std::vector<double> curve;        // of each update, the mean over its episodes of cost / the start's cost
  std::size_t updates = 0;          // done
  std::size_t episodes = 0;         // placements evaluated
  std::size_t episode_of_best = 0;  // how many were evaluated when the last improvement was found
};

/// REINFORCE (Williams, 1992): in each update, episodes run under the policy, and its parameters go up
///
///     sum over the steps t of  (G_t - b_t) grad log p(a_t) + bonus grad entropy(p_t)
///
/// where G_t is the return from step t on, minus the cost over the start's cost, or with intermediate rewards the costs
/// saved by the steps from t on; and b_t the mean of G_t over this task's episodes in the update and some before it.
/// G_t - b_t are divided by their standard deviation over the update. Rates and bonuses fall in equal steps. Gradients
/// are summed in the order of the episodes.
TrainResult train(PolicyNetwork<float>& policy, std::span<const PlacementTask> tasks, const TrainOptions& options);

}  // namespace trainyard::learned
