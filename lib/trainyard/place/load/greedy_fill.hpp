#pragma once

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// Published baseline for the latency of a single sample. Blocks that cannot be separated (contract(), without merging
/// blocks that take no time) are taken depth first in topological order. They fill the first accelerator up to its
/// memory, then the next, and so on. Accelerators are the devices that pay for transfers. Blocks larger than every
/// accelerator, blocks that accelerators cannot run, and the blocks left over go to the first CPU. If that cannot run a
/// block either, the block goes to the device with the most room that can. Throws InputError "no-split" if no device
/// can run it.
///
/// J. Tarnawski et al., NeurIPS 2020, section 6 (the greedy baseline) and the authors' program.
LoadPlacement greedy_fill(const LoadProblem& problem);

}  // namespace trainyard
