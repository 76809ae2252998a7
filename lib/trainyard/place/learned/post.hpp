#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/place/learned/train.hpp"

namespace trainyard::learned {

/// Gao, Chen, Li: Post, Device Placement with Cross-Entropy Minimization and Proximal Policy Optimization, NeurIPS
/// 2018. Each group has a distribution over the devices, independent of the others (softmax of numbers of its own). In
/// every update `samples` placements are drawn from it, and proximal steps climb
///
///     sum over samples and groups of  min(r A, clip(r, 1 - epsilon, 1 + epsilon) A),      r = p(a) / p_then(a)
///
/// where A is the advantage over the mean of the samples, over their standard deviation; after every `period` updates
/// the distributions move towards the shares of the devices among the best samples since the last time.
struct PostOptions {
  std::size_t updates = 100;
  std::size_t samples = 12;
  std::size_t period = 4;    // updates
  double elite = 0.1;        // of the samples of a period
  double step = 0.25;        // towards the shares of the elite
  std::size_t proximal = 4;  // steps on each batch of samples
  double epsilon = 0.2;      // clip
  double rate = 0.02;        // Adam
  double least = 0.002;      // no device's probability falls below it by a cross-entropy step
  std::uint64_t seed = 1;
};

/// The best placement seen, until the task's `stop` ends it; at worst the task's start.
TrainResult post(const PlacementTask& task, const PostOptions& options);

}  // namespace trainyard::learned
