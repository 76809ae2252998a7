#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/model/run_state.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::detail {

/// The event loop for a rule of any type: the content of an OwnRule. Many threads may run it.
class RuleRunner {
 public:
  virtual ~RuleRunner() = default;
  virtual TaskTimes run(const Problem& problem, const Placement& placement, const PlannedTransfers& transfers,
                        const Nanoseconds* durations) const = 0;
};

}  // namespace trainyard::detail
