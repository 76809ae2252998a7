#pragma once

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// The published baseline for the latency of a single sample: blocks that cannot be separated (contract(), without
/// merging what takes no time), depth first in topological order, fill the first accelerator up to its memory, then the
/// next, and so on; blocks larger than any, blocks that accelerators cannot run, and what is left go to the first CPU.
/// Accelerators are the devices that pay. Where a block has no device left that can run it, it goes to the one with the
/// most room that can. Throws InputError ("no-split") where none can.
///
/// J. Tarnawski et al., NeurIPS 2020, section 6 (the greedy baseline) and the authors' program.
LoadPlacement greedy_fill(const LoadProblem& problem);

}  // namespace trainyard
