#pragma once

#include <cstdint>
#include <functional>

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct CriticalPathOptions {
  /// The length of the longest chain from an op to an exit: of ops alone, or with mean transfer times.
  enum class Level : std::uint8_t { statical, bottom };
  Level level = Level::statical;
  bool insertion = false;
  PlanOrder order = PlanOrder::best;
  std::function<bool()> stop = {};  // as ListOptions::stop
};

/// Highest levels first with estimated times (HLFET): ops by descending length of the longest chain from them to an
/// exit. With j over the ops that must follow i,
///
///     level(i) = mean(i) + max over j of level(j).
///
/// Each op goes to the device on which it would finish first, behind everything there (on identical devices: where it
/// would start first). Ties go to the earlier op in the graph's topological order, then to the lower device. With
/// bottom levels and insertion it is HEFT, and on identical devices MCP (M.-Y. Wu, D. Gajski, 1990) except for the
/// ties.
///
/// T. L. Adam, K. M. Chandy, J. R. Dickson: A comparison of list schedules for parallel processing systems. CACM
/// 17(12), 1974.
Schedule critical_path_list(const Problem& problem, const CriticalPathOptions& options = {});

}  // namespace trainyard
