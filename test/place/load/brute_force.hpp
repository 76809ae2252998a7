#pragma once

#include "trainyard/throughput/contraction.hpp"
#include "trainyard/throughput/evaluate.hpp"

namespace trainyard::test {

/// Least load over all placements of blocks whose devices can be ordered along the forward graph; kInfiniteLoad if
/// there is none.
Picoseconds best_contiguous(const LoadProblem& problem, const LoadOptions& options = {});

/// Least load over all placements of colors.
Picoseconds best_placement(const LoadProblem& problem, const LoadOptions& options = {});

}  // namespace trainyard::test
