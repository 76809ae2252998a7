#pragma once

#include <cstddef>

#include "trainyard/place/pesto/pesto.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/rewrite/coarsen.hpp"

namespace trainyard {

/// Fuses ops that an inference backend runs as one kernel, by their types along edges a -> b:
///
///     a                                                            b
///     convolution                                                  batch normalization, elementwise
///     product (MatMul, Gemm, Linear), batch normalization          elementwise
///     elementwise                                                  elementwise
///
/// b joins the cluster of a if all predecessors of b are in that cluster, a is its last op, both are of one phase, and
/// the same devices can run their colocation groups. Since a cluster is entered only through its first op, the quotient
/// graph has no cycle. Clusters are numbered in the topological order of their first ops.
Coarsening fuse_ops(const Problem& problem);

/// Moirai: pesto() on the graph with fused ops (coarse_problem), expanded. If the result does not fit in memory and the
/// schedule of some quick placer does, that one is returned. The paper's integer program has transfers that take turns
/// on links and any number of devices, as has the one of Pesto here. Its fusion rules are those of a backend, these are
/// common ones.
///
/// B. Zhang, H. Zhu, F. Gao, Z. Yang, X. S. Wang: Moirai: towards optimal placement for distributed inference on
/// heterogeneous devices. arXiv 2312.04025, 2023.
Schedule moirai(const Problem& problem, std::size_t target, const PestoOptions& options = {});

}  // namespace trainyard
