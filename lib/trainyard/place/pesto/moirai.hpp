#pragma once

#include <cstddef>

#include "trainyard/place/pesto/pesto.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/rewrite/coarsen.hpp"

namespace trainyard {

/// Ops that an inference backend runs as one kernel, by type, along edges a -> b:
///
///     a                                                            b
///     convolution                                                  batch normalization, elementwise
///     product (MatMul, Gemm, Linear), batch normalization          elementwise
///     elementwise                                                  elementwise
///
/// b joins the cluster of a if all that b comes after is in that cluster, a being the last op there, both are of one
/// phase, and the same devices can run their colocation groups. As nothing enters a cluster but by its first op, the
/// quotient has no cycle, and clusters are numbered in the topological order of their first ops.
Coarsening fuse_ops(const Problem& problem);

/// Moirai: pesto() on the graph with fused ops (coarse_problem), expanded; where that does not fit in memory and some
/// quick placer's schedule does, that one. The paper's integer program has transfers that take turns on links and any
/// devices, as Pesto's has here; its rules are those of a backend, ours the common ones.
///
/// B. Zhang, H. Zhu, F. Gao, Z. Yang, X. S. Wang: Moirai: towards optimal placement for distributed inference on
/// heterogeneous devices. arXiv 2312.04025, 2023.
Schedule moirai(const Problem& problem, std::size_t target, const PestoOptions& options = {});

}  // namespace trainyard
