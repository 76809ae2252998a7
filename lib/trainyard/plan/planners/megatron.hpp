#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Megatron-LM's rules of thumb, on all D devices. M = t p is the least model parallelism with which the model fits:
///
///     t     tensor ranks, up to the devices of a host; then p stages until the model fits; d = D / M replicas
///     b     microbatch of 1, 2, 4 or 8 samples that minimizes (b'/b + (p - 1)/v) (t_f(b) + t_b(b)), with b' = B/d, B
///           the batch, and t_f, t_b the passes of the slowest device on a microbatch (SC 2021, section 3.3)
///     v     chunks per device: interleaved with the most chunks of equal blocks if p divides the number of
///           microbatches; otherwise 1F1B
///     rest  equal layers per stage; sequence parallelism if available; the lowest level of recomputation that fits,
///           equal for all stages (none, attention, blocks: MLSys 2023); ZeRO 1
///
/// D. Narayanan et al.: Efficient large-scale language model training on GPU clusters using Megatron-LM. SC 2021,
/// sections 3 and 5. V. Korthikanti et al.: Reducing activation recomputation in large transformer models. MLSys 2023.
PlannerAnswer plan_megatron(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
