#pragma once

#include <cstdint>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// How a plan becomes an order that the simulator keeps.
enum class PlanOrder : std::uint8_t {
  rank,    // priorities by descending rank
  start,   // priorities by ascending planned start
  strict,  // each device runs its ops in the order of their planned starts
};

struct HeftOptions {
  bool insertion = true;
  PlanOrder order = PlanOrder::rank;
};

/// Heterogeneous earliest finish time: ops by descending upward rank, each to the device on which it would finish first
/// (see ranks.hpp and analytic_plan.hpp for the means, the ties, the colocation groups and memory).
/// H. Topcuoglu, S. Hariri, M. Wu, IEEE TPDS 13(3), 2002.
Schedule heft(const Problem& problem, const HeftOptions& options = {});

}  // namespace trainyard
