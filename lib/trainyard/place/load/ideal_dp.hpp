#pragma once

#include "trainyard/place/load/ideals.hpp"
#include "trainyard/place/load/split.hpp"
#include "trainyard/throughput/contraction.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// The contiguous split of least load (max of LoadGoal::together) whose cuts are ideals of the lattice. With D a number
/// of devices of each kind, e_k one device of kind k:
///
///     best(D, {})  = 0
///     best(D, I)   = min over ideals J within I, kinds k:  max(best(D - e_k, J), load_k(I \ J))
///
/// Optimal over all ideals; that any number of devices may stay idle is in the minimum over D at the end. Nothing is
/// kept of pairs: for each I its subsets are walked once each (blocks are taken off by descending rank), the load
/// following block by block, as long as the time of what was taken can still give something better. A state (D, I) is
/// dropped when another with no more devices is as good, or when what is left cannot be done by the devices left within
/// the limit. Time O(pairs x degree), memory O(ideals x states).
///
/// J. Tarnawski et al., NeurIPS 2020, section 5; several kinds and replicas are its appendix.
Split best_split(const LoadProblem& problem, const Contraction& blocks, const IdealLattice& lattice,
                 const SplitOptions& options = {});

/// The optimal contiguous split: best_split() over all ideals, with dpl() as its limit. Throws InputError
/// ("too-many-ideals").
Split ideal_split(const LoadProblem& problem, const Contraction& blocks, const SplitOptions& options = {});

}  // namespace trainyard
