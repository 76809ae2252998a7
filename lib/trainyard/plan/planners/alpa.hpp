#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Alpa's search for stages, on all devices. With B microbatches per replica, it minimizes
///
///     T = sum over stages of t_i + (B - 1) max t_i
///     t_i   forward and backward pass of a microbatch on stage i, and 1/B of the sum of its gradients
///
/// For each possible maximum t_max of t_i, ascending, dynamic programming finds the cuts with the least sum. It ends
/// once the least sum of all plus (B - 1) t_max reaches the best T. A stage fits with as many microbatches in flight as
/// there are stages from it on. Rematerialization is of all blocks or none. Replicas use ZeRO 1 (Alpa's reduce-scatter
/// preference). T leaves out transfers between stages and the update.
///
/// Submeshes are equal, or with PlannerOptions::stage_degrees differ per stage, with the devices that StageChoices
/// allow. For each number of stages, first layer and devices left, the search then keeps the partial plans that are
/// Pareto-optimal in sum and t_max, so the least T is among them. (Alpa repeats the search for each t_max instead.)
///
/// Other differences: the layouts that Alpa's integer program chooses within a stage are tensor degrees, with or
/// without sequence parallelism. Layers are not clustered first. Microbatches, which Alpa's user gives, are searched.
///
/// L. Zheng et al.: Alpa: Automating inter- and intra-operator parallelism for distributed deep learning. OSDI 2022,
/// section 5 and algorithm 1.
PlannerAnswer plan_alpa(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
