#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/place/load/split.hpp"
#include "trainyard/throughput/contraction.hpp"
#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// Accelerators in clusters, with cheaper transfers inside a cluster.
struct LoadHierarchy {
  std::size_t clusters = 1;
  std::size_t devices = 1;  // in each cluster
  double inner_share = 1;   // cost of a transfer within a cluster, relative to one between clusters
};

/// The parts of each cluster, in the order of the chain.
struct HierarchicalSplit {
  Picoseconds value = kInfiniteLoad;
  struct Cluster {
    std::vector<SplitPart> parts;
    Picoseconds load{};
  };
  std::vector<Cluster> clusters = {};

  bool found() const { return value != kInfiniteLoad; }
};

/// The best split of a chain of blocks into clusters, and of each cluster's run into devices. It has two levels, as in
/// PipeDream: first the devices of one cluster, then the cluster as one machine. For the run from i to j of the chain,
/// in and out are the costs of the transfers across its ends; s is the inner share:
///
///     load(i, j)      = time(i, j), s x in(i, j), s x out(i, j), without transfers across an end of the cluster
///     A(a, b)         = min over cuts of a to b into at most `devices` runs of the greatest load
///     machine(a, b)   = A(a, b), in(a, b), out(a, b)
///     value           = min over cuts of the chain into at most `clusters` runs of the greatest machine load
///
/// with each triple combined by LoadSum. A tensor that enters a cluster is thus paid once by the cluster, and again at
/// the inner cost by the device that reads it, unless that device is at the end where the tensor came in. Devices are
/// of the first kind that pays for transfers; the memory limit holds for each device. O(blocks^3 x devices). Throws
/// InputError "too-many-blocks" beyond 600 blocks.
///
/// J. Tarnawski et al., NeurIPS 2020, appendix; D. Narayanan et al.: PipeDream, SOSP 2019.
HierarchicalSplit hierarchical_split(const LoadProblem& problem, const Contraction& blocks,
                                     const std::vector<BlockId>& order, const LoadHierarchy& hierarchy,
                                     LoadSum sum = LoadSum::added);

}  // namespace trainyard
