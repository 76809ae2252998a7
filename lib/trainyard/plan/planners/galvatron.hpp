#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Galvatron's step, on all devices: with m microbatches of a replica, p stages, c_i the passes of stage i on a
/// microbatch with what it sends, r_i the same with the sum of its gradients beside the backward pass,
///
///     T = sum c_i + (m - 1) max c_i + max(0, max over i of (r_i - sum over j <= i of c_j))
///
/// Tensor degrees (the sequence shared or not), replicas with or without a shared state, microbatches; stages equal in
/// layers, in time or in memory; of each stage the least recomputation within the memory. Galvatron chooses the
/// strategy of each layer by dynamic programming over (layer, memory, strategy); with equal degrees, and recomputation
/// by stages, what is left of it is that choice. It sets a fifth of the memory aside; here all is used.
///
/// X. Miao, Y. Wang, Y. Jiang, C. Shi, X. Nie, H. Zhang, B. Cui: Galvatron: Efficient transformer training over
/// multiple GPUs using automatic parallelism. PVLDB 16(3), 2022. The last term is that of its code (pipeline_costmodel,
/// cea12ffb), which has the last stage for the largest: there stages are nearly equal, here a search would make the
/// last one small.
PlannerAnswer plan_galvatron(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
