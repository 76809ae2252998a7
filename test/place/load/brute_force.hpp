#pragma once

#include "trainyard/throughput/contraction.hpp"
#include "trainyard/throughput/evaluate.hpp"

namespace trainyard::test {

/// The least value of all placements of blocks whose devices can be ordered along the forward graph; kInfiniteLoad:
/// there is none.
Picoseconds best_contiguous(const LoadProblem& problem, const LoadOptions& options = {});

/// The least value of all placements of colors.
Picoseconds best_placement(const LoadProblem& problem, const LoadOptions& options = {});

}  // namespace trainyard::test
