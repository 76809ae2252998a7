#pragma once

#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

/// Megatron-LM's rules of thumb, on all devices: with D of them and t p = M as little model parallelism as the model
/// takes to fit,
///
///     t     ranks up to the devices of a host, then p stages until it fits; d = D / M
///     b     of microbatches of 1, 2, 4 and 8 samples the one of the least (b'/b + (p - 1)/v) (t_f(b) + t_b(b)), where
///           b' = B/d and t_f, t_b are the passes of the slowest device for a microbatch (SC 2021, section 3.3)
///     v     interleaved, the most chunks of equal blocks where p divides the number of microbatches; else 1F1B
///     else  equal layers a stage; ranks share the sequence where there is one; the least recomputation that fits, of
///           all stages alike (nothing, attention, blocks: MLSys 2023); replicas share the optimizer's state
///
/// D. Narayanan et al.: Efficient large-scale language model training on GPU clusters using Megatron-LM. SC 2021,
/// sections 3 and 5. V. Korthikanti et al.: Reducing activation recomputation in large transformer models. MLSys 2023.
PlannerAnswer plan_megatron(const PlanCosts& costs, const PlannerOptions& options = {});

}  // namespace trainyard
