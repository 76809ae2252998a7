#pragma once

#include "trainyard/place/meta/placement_search.hpp"

namespace trainyard {

struct AnnealingOptions {
  PlacementSearchOptions search = {};
  double taken = 0.1;     // share of worse proposals accepted at first
  double cooling = 0.01;  // last temperature / first temperature
};

/// Simulated annealing over placements (PlacementChain). A random colocation group is proposed on a random device; a
/// makespan longer by x is accepted with the probability exp(-x / T) of Metropolis et al. (1953). The temperature falls
/// geometrically, in 100 steps, with the share s of the budget that is spent,
///
///     T(s) = T(0) cooling^s.
///
/// T(0) is set such that the share `taken` of the worse proposals in a sample at the start would be accepted. If the
/// sample has no worse proposal, none is ever accepted.
///
/// S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi: Optimization by simulated annealing. Science 220, 1983.
Schedule annealing(const Problem& problem, const AnnealingOptions& options, const PlaceOptions& run);

}  // namespace trainyard
