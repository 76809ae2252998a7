#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Minimizes Galvatron's step T, on all devices. With m microbatches per replica, c_i the passes of stage i on a
/// microbatch plus its transfers, and r_i the same with the sum of its gradients overlapping the backward pass,
///
///     T = sum c_i + (m - 1) max c_i + max(0, max over i of (r_i - sum over j <= i of c_j))
///
/// Searches tensor degrees (with or without sequence parallelism), replicas (ZeRO 0 or 1), microbatches, and stages
/// balanced in layers, time or memory. Each stage takes the lowest level of recomputation that fits. Galvatron chooses
/// a strategy per layer by dynamic programming over (layer, memory, strategy); with equal degrees and recomputation per
/// stage, only the choice of recomputation is left of it. It keeps a fifth of the memory free; here all is used.
///
/// X. Miao, Y. Wang, Y. Jiang, C. Shi, X. Nie, H. Zhang, B. Cui: Galvatron: Efficient transformer training over
/// multiple GPUs using automatic parallelism. PVLDB 16(3), 2022. The last term follows its code (pipeline_costmodel,
/// cea12ffb), which takes it for the last stage only. There, stages are nearly equal; a search with that term would
/// make the last stage small.
PlannerAnswer plan_galvatron(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
