#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Minimizes Piper's time per sample (TPS) of a pipeline in steady state, on any number of the devices:
///
///     TPS = max over stages of load / (b d)
///     load     passes of a stage on a microbatch of b samples, its transfers over both cuts in both directions, and
///              twice 1/m of the sum of its gradients (traffic of a parameter server), without any overlap
///     memory   stage i of p has p - i microbatches in flight, and the lowest level of recomputation that fits
///
/// Here d is the number of replicas and m the microbatches per replica. Dynamic programming over prefixes of the chain
/// minimizes the largest load, for all degrees with p d <= N/b, where N is the batch. The ramp-up of the pipeline does
/// not count, so the plan need not minimize the step.
///
/// Degrees are equal on all stages. With PlannerOptions::stage_degrees, plans with degrees per stage (StageChoices) are
/// searched too, by dynamic programming over first layer, devices left and degrees of the first stage, for each number
/// of stages. b d is then the number of samples that the replicas of a stage divide, and unused devices come first.
/// Piper also chooses degrees and recomputation for each layer; here they are chosen for each stage.
///
/// J. Tarnawski, D. Narayanan, A. Phanishayee: Piper: Multidimensional planner for DNN parallelization. NeurIPS 2021.
PlannerAnswer plan_piper(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
