#pragma once

#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {

/// The parameter `order` of placers that make an analytic plan.
inline constexpr Choice kOrder{
    "order",
    {{"rank", PlanOrder::rank}, {"start", PlanOrder::start}, {"strict", PlanOrder::strict}, {"best", PlanOrder::best}},
    PlanOrder::best,
    "how the simulator follows the plan: rank (priorities in the order in which ops were placed), start (priorities by "
    "planned start), strict (each device runs ops in the order of planned starts), best (the best of the three)"};

}  // namespace trainyard
