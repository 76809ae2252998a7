#pragma once

#include "trainyard/place/load/ideals.hpp"
#include "trainyard/place/load/split.hpp"
#include "trainyard/throughput/contraction.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// The contiguous split of least load (maximum over devices, LoadGoal::together) whose cuts are ideals of the lattice.
/// With D the numbers of devices of each kind, and e_k one device of kind k:
///
///     best(D, {})  = 0
///     best(D, I)   = min over ideals J within I, kinds k:  max(best(D - e_k, J), load_k(I \ J))
///
/// The result is optimal over all ideals; the minimum over D at the end allows any number of idle devices. Pairs of
/// ideals are not stored. For each I the subsets are walked once, by taking off blocks in descending rank, and the load
/// is updated block by block. A walk ends once the compute time of the blocks taken off rules out an improvement. A
/// state (D, I) is dropped if a state with at most these devices is as good, or if the remaining devices cannot do the
/// remaining work within the limit. Time O(pairs x degree), memory O(ideals x states).
/// Throws InputError "too-many-kinds" for more than 100,000 combinations of device counts.
///
/// J. Tarnawski et al., NeurIPS 2020, section 5; several kinds and replicas are in its appendix.
Split best_split(const LoadProblem& problem, const Contraction& blocks, const IdealLattice& lattice,
                 const SplitOptions& options = {});

/// The optimal contiguous split: best_split() over all ideals, limited by the value of dpl(). Throws InputError
/// "too-many-ideals".
Split ideal_split(const LoadProblem& problem, const Contraction& blocks, const SplitOptions& options = {});

}  // namespace trainyard
