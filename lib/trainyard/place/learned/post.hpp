#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/place/learned/train.hpp"

namespace trainyard::learned {

/// Gao, Chen, Li: Post, Device Placement with Cross-Entropy Minimization and Proximal Policy Optimization, NeurIPS
/// 2018. Each group has a distribution over the devices, independent of the others (a softmax of its own logits). Each
/// update draws `samples` placements, and proximal steps increase
///
///     sum over samples and groups of  min(r A, clip(r, 1 - epsilon, 1 + epsilon) A),      r = p(a) / p_then(a)
///
/// with A the advantage over the mean of the samples, divided by their standard deviation. After every `period` updates
/// the distributions move towards the shares of the devices among the best samples of the period.
struct PostOptions {
  std::size_t updates = 100;
  std::size_t samples = 12;
  std::size_t period = 4;    // updates
  double elite = 0.1;        // of the samples of a period
  double step = 0.25;        // towards the shares of the elite
  std::size_t proximal = 4;  // gradient steps on each batch of samples
  double epsilon = 0.2;      // clip
  double rate = 0.02;        // Adam
  double least = 0.002;      // lower bound on a probability after a cross-entropy step
  std::uint64_t seed = 1;
};

/// Returns the best placement seen; at worst the task's start. The task's `stop` ends the search.
TrainResult post(const PlacementTask& task, const PostOptions& options);

}  // namespace trainyard::learned
