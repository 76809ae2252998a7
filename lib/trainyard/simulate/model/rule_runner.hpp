#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/model/run_state.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::detail {

/// The event loop of a rule, whatever its type: what an OwnRule holds. Many threads may run it.
class RuleRunner {
 public:
  virtual ~RuleRunner() = default;
  virtual TaskTimes run(const Problem& problem, const Placement& placement, const PlannedTransfers& transfers,
                        const Nanoseconds* durations) const = 0;
};

}  // namespace trainyard::detail
