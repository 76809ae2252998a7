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
      {"megatron", "a plan by Megatron-LM's rules of thumb: ranks up to a host, stages until it fits, then replicas",
       "Narayanan et al.: Megatron-LM, SC 2021; Korthikanti et al., MLSys 2023", plan_megatron},
      {"alpa", "a plan of the least sum of stages and (B - 1) times the slowest, by dynamic programming",
       "Zheng et al.: Alpa, OSDI 2022", plan_alpa},
      {"galvatron", "a plan of the least step by Galvatron's pipeline formula, within the memory",
       "Miao et al.: Galvatron, PVLDB 2022", plan_galvatron},
      {"aceso", "a plan by moves that make its bottleneck lighter, several at a time",
       "Liu et al.: Aceso, EuroSys 2024", plan_aceso},
      {"piper", "a plan of the least time per sample of an endless pipeline, by dynamic programming",
       "Tarnawski et al.: Piper, NeurIPS 2021", plan_piper},
      {"dapple", "a plan of replicas and stages of the least latency around a pivot stage",
       "Fan et al.: DAPPLE, PPoPP 2021", plan_dapple},
  }};
  return kAll;
}

}  // namespace trainyard
