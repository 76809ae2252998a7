#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Aceso's search, on all devices. For each number of stages it starts from equal layers, the fewest tensor ranks and
/// microbatches of one sample, and alleviates the bottleneck until it finds no shorter step. With m microbatches and
/// t_i the passes of stage i plus its transfers, the step is
///
///     (m - 1) max t_i + sum of t_i          without sums of gradients and update
///
/// The bottleneck is the stage that exceeds the memory most, if any does, else the stage with the largest t_i. Moves
/// relieve it of the resource that it lacks, in this order:
///
///     memory    a layer to another stage, the idlest first; more ranks and fewer replicas; smaller microbatches
///     time      a layer to another stage; fewer ranks and more replicas; the reverse; larger microbatches
///
/// After each move, every stage takes the lowest level of recomputation that fits. The search takes the first improving
/// move. If there is none, it chains up to 7 moves (multi-hop). It rates no plan twice, and at most 1,000 plans for
/// each number of stages.
///
/// Degrees are equal on all stages, so moves change ranks and replicas everywhere. With PlannerOptions::stage_degrees
/// it also searches plans with degrees per stage. These start with a power of two of devices per stage (twice that for
/// the last stages, if devices are left). Moves then change the ranks or replicas of the bottleneck only. Before
/// microbatch moves, they double its devices, with free ones or half of those of other stages, the idlest first.
///
/// Two parts of Aceso are left out: restarts from the best plans that it passed by, and tuning of single ops.
///
/// G. Liu, Y. Miao, Z. Lin, X. Shi, S. Maleki, F. Yang, Y. Bao, S. Wang: Aceso: Efficient parallel DNN training through
/// iterative bottleneck alleviation. EuroSys 2024, sections 3 and 4.
PlannerAnswer plan_aceso(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
