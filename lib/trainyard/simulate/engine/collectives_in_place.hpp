#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard::detail {

/// Runs of a problem's collectives for one placement after the other. A collective is looked up anew only where one of
/// its members has moved. Refers to the problem: keep it alive.
class CollectivesInPlace {
 public:
  explicit CollectivesInPlace(const Problem& problem) : graph_(problem.graph()), runs_(problem) {
    if (!graph_.has_collectives()) return;
    known_.resize(graph_.op_count());
    for (const OpId op : graph_.ops()) {
      if (!graph_.collective(op)) continue;
      known_[op].first_end = static_cast<std::uint32_t>(ends_.size());
      ends_.resize(ends_.size() + graph_.after(op).size() + graph_.before(op).size());
    }
  }

  const CollectiveRun& of(OpId collective, const Placement& placement) {
    Known& known = known_[collective];
    DeviceId* end = ends_.data() + known.first_end;
    bool moved = known.run == nullptr;
    for (const auto ops : {graph_.after(collective), graph_.before(collective)})
      for (const OpId op : ops) {
        moved = moved || *end != placement[op];
        *end++ = placement[op];
      }
    if (moved) known.run = &runs_.of(collective, placement);
    return *known.run;
  }
  /// As last looked up.
  const CollectiveRun& found(OpId collective) const { return *known_[collective].run; }

 private:
  struct Known {
    const CollectiveRun* run = nullptr;
    std::uint32_t first_end = 0;  // in ends_: devices of the ops before it, then of those after it
  };

  const Graph& graph_;
  CollectiveRuns runs_;
  IdMap<OpId, Known> known_;  // empty where there are none
  std::vector<DeviceId> ends_;
};

}  // namespace trainyard::detail
