#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// A stage in DAPPLE's latency. A cut counts as a stage too, whose forward and backward times are its transfers.
struct DappleStage {
  Nanoseconds forward, backward, reduce;
};
/// DAPPLE's pipeline latency. With m microbatches and the pivot Q, the stage without bubbles,
///
///     L = sum over s <= Q of F_s + (m - 1)(F_Q + B_Q)
///         + max over s of ( R_s + ( sum of B_s .. B_Q where s < Q | B_Q where s = Q | -sum of B_Q .. B_s where s > Q )
///         )
///
/// F_s and B_s are the passes of stage s, R_s the sum of its gradients. Q starts as the last stage. For s from there to
/// the first stage, Q becomes s if (m - 1)(F_s + B_s) > (m - 1)(F_Q + B_Q) + sum over s < a < Q of (F_a + B_a).
Nanoseconds dapple_latency(const std::vector<DappleStage>& stages, std::size_t microbatches);

/// DAPPLE's plans, on all devices: data and pipeline parallelism, and recomputation of all blocks if the plan does not
/// fit without. Its dynamic program keeps, for each number of stages and layer at which they end, the cuts with the
/// least L if all later layers form one more stage on the remaining devices (whose gradients are summed as one
/// stage's). The result need not minimize L over all cuts. Here, all stages have equal replicas and placement. The
/// microbatch size, which DAPPLE's user gives, is searched.
///
/// S. Fan et al.: DAPPLE: A pipelined data parallel approach for training large models. PPoPP 2021, section 4.
PlannerAnswer plan_dapple(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
