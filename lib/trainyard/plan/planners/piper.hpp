#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Piper's time per sample of a pipeline that runs for ever, on any number of the devices:
///
///     TPS = max over stages of load / (b d)
///     load   passes of a stage on a microbatch of b samples, what it sends and receives before and after it, both
///            ways, and twice 1/m of the sum of its gradients (a parameter server's traffic); nothing overlaps
///     memory of stage i of p with p - i microbatches in flight; the least recomputation that fits
///
/// The cuts of the largest load that is least, by dynamic programming over the ends of the chain, for all degrees with
/// no more stages and replicas together than there are microbatches (p d <= N/b). No ramp: the step is not its aim.
/// Degrees are equal on all stages, or with PlannerOptions::stage_degrees besides each stage's own (StageChoices), the
/// dynamic program over first layer, devices left and degrees of the first stage, for each number of stages; b d are
/// then the samples that all replicas of a stage share, and devices that are not used are taken for the first. Its
/// layers' choices are those of a stage.
///
/// J. Tarnawski, D. Narayanan, A. Phanishayee: Piper: Multidimensional planner for DNN parallelization. NeurIPS 2021.
PlannerAnswer plan_piper(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
