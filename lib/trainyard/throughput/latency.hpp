#pragma once

#include <cstddef>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

struct LatencyReport {
  Picoseconds latency{};
  bool cyclic = false;     // pieces wait for each other in a circle: there is no latency
  std::size_t pieces = 0;  // of all accelerators
  Bytes excess{};          // beyond the capacities; a device holds all of its pieces
};

/// How long a single sample takes from its first op to its last, without a pipeline: an accelerator runs a piece of
/// the graph as one call, which waits for all its inputs, reads them, computes, and writes all its outputs:
///
///     finish(piece) = max over outside producers of finish + sum of in-costs + sum of times + sum of out-costs
///     finish(v)     = max over producers of finish + time(v)        on a CPU; CPUs have all the width they need
///
/// Accelerators are the devices that pay. The ops of one are cut into the fewest pieces that wait for nothing of their
/// own: an op is in piece n if paths to it from the device's own ops have left and come back n times at most. Pieces of
/// one accelerator do not wait for each other but for what they read.
///
/// J. Tarnawski et al., NeurIPS 2020, section 4 (latency) and the authors' program.
LatencyReport evaluate_latency(const LoadProblem& problem, const LoadPlacement& placement);

}  // namespace trainyard
