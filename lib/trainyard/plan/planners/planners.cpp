#include <array>

#include "trainyard/plan/planners/aceso.hpp"
#include "trainyard/plan/planners/alpa.hpp"
#include "trainyard/plan/planners/dapple.hpp"
#include "trainyard/plan/planners/galvatron.hpp"
#include "trainyard/plan/planners/megatron.hpp"
#include "trainyard/plan/planners/piper.hpp"
#include "trainyard/plan/planners/planner.hpp"

namespace trainyard {

std::span<const Planner> planners() {
  static constexpr std::array<Planner, 6> kAll{{
      {"megatron",
       "plan by Megatron-LM's rules of thumb: tensor ranks up to a host, stages until the model fits, then replicas",
       "Narayanan et al.: Megatron-LM, SC 2021; Korthikanti et al., MLSys 2023", plan_megatron},
      {"alpa",
       "plan with the least sum of stage times plus (microbatches - 1) times the slowest, by dynamic programming",
       "Zheng et al.: Alpa, OSDI 2022", plan_alpa},
      {"galvatron", "plan that fits in memory with the shortest step by Galvatron's pipeline formula",
       "Miao et al.: Galvatron, PVLDB 2022", plan_galvatron},
      {"aceso", "plan improved by moves that relieve its bottleneck, several at a time if needed",
       "Liu et al.: Aceso, EuroSys 2024", plan_aceso},
      {"piper", "plan with the least time per sample of a pipeline in steady state, by dynamic programming",
       "Tarnawski et al.: Piper, NeurIPS 2021", plan_piper},
      {"dapple", "plan of replicas and stages with the least latency, estimated around a pivot stage",
       "Fan et al.: DAPPLE, PPoPP 2021", plan_dapple},
  }};
  return kAll;
}

}  // namespace trainyard
