#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace trainyard::learned {

struct TrainOptions {
  std::size_t updates = 100;
  std::size_t episodes = 8;  // per update, over all tasks
  /// Updates before those in which a network with a teacher imitates it, without simulations; and the devices to which
  /// the teacher leads on each task (empty: those of the network's own heuristic).
  std::size_t imitation = 0;
  std::vector<std::vector<std::uint32_t>> targets = {};
  unsigned threads = 1;  // does not affect the result; 0: as many as the machine runs at once
  std::uint64_t seed = 1;
  /// A reward after each decision instead of one at the end, with the same sum. Each decision must place or move a
  /// group.
  bool intermediate = false;
  double discount = 0.8;  // of an intermediate reward, for each decision that it comes later
  /// Every second episode of each task continues from the best placement seen, and visits the groups in random order,
  /// if the network improves a start. The curve and the choice of kept parameters are based on the other episodes only.
  bool from_best = true;
  double imitation_rate = 1e-2;
  double first_rate = 1e-2, last_rate = 1e-3;
  double first_bonus = 0.001, last_bonus = 0.0001;  // of the entropy
  double clip = 1.25;                               // limit on the gradient's norm
  std::size_t window = 10;                          // earlier episodes of a task in its baseline
  /// Share of the time that is used up. Polled before each update and around each of its episodes. Training ends when
  /// the time left is what the last decisions take. None: only the number of updates counts.
  std::function<double()> used = {};
  std::function<void(std::size_t update, double mean_cost)> progress = {};
};

/// Costs of a task: of the start and of the best placement seen, in ns with the memory penalty.
struct TaskCosts {
  double start = 0, best = 0;
};

struct TrainResult {
  std::vector<TaskCosts> costs;
  /// The best placement seen of each task, and its cost; at worst the task's start.
  std::vector<std::vector<std::uint32_t>> best;  // device by group, as PlacementTask numbers them
  std::vector<double> best_cost;
  std::vector<double> curve;              // by update: mean over its episodes of the cost over the start's
  std::size_t updates = 0, episodes = 0;  // done
  /// Placements simulated: with intermediate rewards, all that episodes pass, and those of the look-ahead.
  std::size_t evaluations = 0;
  std::size_t evaluations_to_best = 0;  // up to the last improvement
  /// Evaluations without look-ahead, as Placeto's paper counts: a placement for each decision that changed one.
  std::size_t passed = 0, passed_to_best = 0;
};

}  // namespace trainyard::learned
