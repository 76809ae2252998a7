#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Aceso's search, on all devices: for each number of stages, from equal layers, no tensor ranks and microbatches of
/// one sample on, the bottleneck is made lighter until nothing found makes the step shorter. Its step, with m
/// microbatches and t_i the passes of stage i with what it sends and receives:
///
///     max over stages of (m - 1) t_i, and sum of t_i          no sums of gradients, no update
///
/// The bottleneck is the stage that is furthest beyond the memory, if any is, else that of the largest t_i. A move
/// takes from it what it has too much of, in this order:
///
///     memory    a layer to another stage, the idlest first; more ranks and fewer replicas; smaller microbatches
///     time      a layer to another stage; fewer ranks and more replicas, and the reverse; larger microbatches
///
/// and recomputation is chosen anew each time, the least that fits. The first move that is better is taken; where none
/// is, moves follow on moves, up to 7 (multi-hop), no plan twice, within 1,000 plans for each number of stages. Degrees
/// are equal on all stages, so that ranks and replicas change on all at once; with PlannerOptions::stage_degrees it
/// searches besides with those of each stage, from as many devices each as are a power of two (twice of the last stages
/// while there are devices left): the bottleneck's ranks or replicas alone change, and before microbatches do it takes
/// as many devices as it has, free ones or half of those of others, the idlest first. That it restarts from the best it
/// has passed by, and tunes ops one by one, is left out.
///
/// G. Liu, Y. Miao, Z. Lin, X. Shi, S. Maleki, F. Yang, Y. Bao, S. Wang: Aceso: Efficient parallel DNN training through
/// iterative bottleneck alleviation. EuroSys 2024, sections 3 and 4.
PlannerAnswer plan_aceso(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
