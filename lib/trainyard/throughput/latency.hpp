#pragma once

#include <cstddef>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

struct LatencyReport {
  Picoseconds latency{};
  bool cyclic = false;     // pieces wait for each other on a cycle: the latency is not defined
  std::size_t pieces = 0;  // number over all accelerators
  Bytes excess{};          // size beyond the capacities; a device holds all of its pieces at once
};

/// Latency of a single sample from its first op to its last, without pipelining. An accelerator runs a piece of the
/// graph as one call, which waits for all its inputs, reads them, computes, and writes all its outputs:
///
///     finish(piece) = max over outside producers of finish + sum of in-costs + sum of times + sum of out-costs
///     finish(v)     = max over producers of finish + time(v)        for an op v on a CPU
///
/// Accelerators are the devices that pay. CPUs run any number of ops at once. The ops of an accelerator are divided
/// into the fewest pieces such that no piece waits for its own output: an op is in piece n if n is the largest number
/// of times that a path to it from ops of the device leaves the device and returns. Pieces of one accelerator wait for
/// each other only if one reads from the other.
///
/// J. Tarnawski et al., NeurIPS 2020, section 4 (latency) and the authors' program.
LatencyReport evaluate_latency(const LoadProblem& problem, const LoadPlacement& placement);

}  // namespace trainyard
