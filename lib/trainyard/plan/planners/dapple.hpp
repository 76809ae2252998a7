#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// The latency of a pipeline as DAPPLE has it. A cut is a stage of its own: its forward and backward times are those of
/// what is sent over it. With m microbatches and the pivot Q, the stage that has no bubble,
///
///     L = sum over s <= Q of F_s + (m - 1)(F_Q + B_Q)
///         + max over s of ( R_s + ( sum of B_s .. B_Q where s < Q | B_Q where s = Q | -sum of B_Q .. B_s where s > Q )
///         )
///
/// R_s the sum of the stage's gradients. Q begins as the last stage, and becomes s, from the last to the first, where
/// (m - 1)(F_s + B_s) > (m - 1)(F_Q + B_Q) + sum over s < a < Q of (F_a + B_a).
struct DappleStage {
  Nanoseconds forward, backward, reduce;
};
Nanoseconds dapple_latency(const std::vector<DappleStage>& stages, std::size_t microbatches);

/// DAPPLE's plans, on all devices: data and pipeline parallelism, and all blocks computed again where it does not fit
/// without. Cuts by its dynamic programming: of s stages that end at a layer those are kept whose L is least with
/// the layers after it as one more stage on the devices that are left (the sum of its gradients that of one stage), so
/// that the cuts need not be those of the least L of all. Replicas of each stage, and where they stand, are equal here;
/// the microbatch, which its user gives, is searched.
///
/// S. Fan et al.: DAPPLE: A pipelined data parallel approach for training large models. PPoPP 2021, section 4.
PlannerAnswer plan_dapple(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
