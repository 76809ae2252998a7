#pragma once

#include <cstdint>
#include <functional>

#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct EtfOptions {
  /// How (free op, device) pairs are compared. On devices that differ, the paper's rule (`start`) gives a slow device
  /// all that it could start at once; `finish` is the min-min rule with transfers.
  enum class By : std::uint8_t { start, finish };
  By by = By::start;
  PlanOrder order = PlanOrder::best;
  /// Preferred devices: an op goes to no other candidate unless none is preferred or has room. Empty: all are
  /// preferred.
  std::function<bool(OpId, DeviceId)> wanted = {};
  std::function<bool()> stop = {};  // as ListOptions::stop
};

/// Earliest task first: with ops i whose predecessors have been taken, and devices d, takes the pair of the least
///
///     start(i, d) = max(free(d), ready(i, d)),
///
/// where free(d) is the end of the last op on d (gaps are not filled), and ready(i, d) the time at which everything
/// that i needs is on d, without transfers ever waiting. Ties go to the op of the higher static level (the longest
/// chain to an exit, mean durations without transfers), then to the lower op, then to the lower device.
///
/// Bound, on n identical devices without memory limits: makespan <= (2 - 1/n) x optimum without transfer times + the
/// largest total of transfer times along a chain.
///
/// Each device keeps its free ops in two heaps: ops that are ready there before the device is free (by level), and ops
/// that are not ready yet (by ready time). A step costs O(devices), and an op O(devices x log ops).
///
/// Colocation groups, device kinds and memory: as in analytic_plan.hpp.
///
/// J.-J. Hwang, Y.-C. Chow, F. D. Anger, C.-Y. Lee: Scheduling precedence graphs in systems with interprocessor
/// communication times. SIAM J. Comput. 18(2), 1989.
Schedule etf(const Problem& problem, const EtfOptions& options = {});

}  // namespace trainyard
