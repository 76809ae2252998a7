#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Alpa's stages, on all devices: with B microbatches of a replica,
///
///     T = sum over stages of t_i + (B - 1) max t_i
///     t_i   forward and backward pass of a microbatch on stage i, and 1/B of the sum of its gradients
///
/// for each largest time t_max that a stage may have, cuts of the least sum by dynamic programming, while
/// the least sum of all + (B - 1) t_max is less than the best T. A stage fits with as many microbatches in flight as
/// there are stages from it on. Rematerialization is of all blocks or of none; replicas share the optimizer's state
/// (reduce-scatter preferred). Transfers between stages and the update are not in T.
///
/// Submeshes are equal, or with PlannerOptions::stage_degrees each stage has its own, of StageChoices' numbers of
/// devices: of each number of stages, their first layer and the devices left before them, those are kept of which no
/// other has a smaller sum and a smaller t_max, so that the least T is among them (its algorithm repeats the search for
/// each t_max instead). The layouts that its integer program chooses within a stage are tensor degrees, with the
/// sequence shared or not; layers are not clustered before; microbatches, which its user gives, are searched.
///
/// L. Zheng et al.: Alpa: Automating inter- and intra-operator parallelism for distributed deep learning. OSDI 2022,
/// section 5 and algorithm 1.
PlannerAnswer plan_alpa(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
