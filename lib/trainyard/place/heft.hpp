#pragma once

#include "trainyard/place/plan_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct HeftOptions {
  bool insertion = true;
  PlanOrder order = PlanOrder::best;
};

/// Heterogeneous earliest finish time: ops by descending upward rank, each to the device on which it would finish first
/// (see ranks.hpp and analytic_plan.hpp for the means, the ties, the colocation groups and memory). Where memory keeps
/// an op off a device, or the schedule does not fit in simulation, it is planned on 90, 80, ... 50 % of each memory
/// too, and the schedule with the best simulated outcome is kept. H. Topcuoglu, S. Hariri, M. Wu, IEEE TPDS 13(3),
/// 2002.
Schedule heft(const Problem& problem, const HeftOptions& options = {});

}  // namespace trainyard
