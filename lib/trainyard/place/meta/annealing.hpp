#pragma once

#include "trainyard/place/meta/placement_search.hpp"

namespace trainyard {

struct AnnealingOptions {
  PlacementSearchOptions search = {};
  double taken = 0.1;     // of proposals that are worse, taken at first
  double cooling = 0.01;  // the last temperature over the first
};

/// Simulated annealing over placements (PlacementChain): a random colocation group is proposed on a random device, and
/// a makespan longer by x is taken with the probability exp(-x / T) of Metropolis et al. (1953). The temperature falls
/// geometrically with the share s of the budget that is spent,
///
///     T(s) = T(0) cooling^s,   T(0): `taken` of those proposals of a sample at the start that are worse would be taken
///
/// in 100 steps. Without a proposal that is worse in the sample, none ever is taken.
///
/// S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi: Optimization by simulated annealing. Science 220, 1983.
Schedule annealing(const Problem& problem, const AnnealingOptions& options, const PlaceOptions& run);

}  // namespace trainyard
