#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

struct StageDegreesFound {
  std::vector<RatedPlan> best;  // all within memory, of different degrees or microbatch
  Nanoseconds bound;            // no plan of the dimensions searched within memory takes less; kLongestTime: none
  std::uint64_t evaluations = 0;
  bool exact = false;  // every plan that could be shorter than the best and `least` was looked at
};

/// The best plans of 1F1B whose stages have different degrees. Of the others' best step, `least`, all are left out that
/// cannot be shorter.
///
/// Microbatches of all replicas and ZeRO stages are enumerated in the order of their bounds (stage_degrees_bound.hpp),
/// which are tightened before one is searched. Stages are chosen from the last one on: for a number of stages, their
/// first layer and the devices left before them, the few best stages found (all, where all plans are few thousand) are
/// each extended by a stage of every length and degrees, with the least recomputation that fits its min(m, number)
/// microbatches in flight. The best
///
///     sum of (t_i + transfers) + (m - 1) max(t_i, transfers, sum from i on / stages from i on)
///     + what sums of gradients and updates end later
///
/// with the work of the layers that are left on the devices that are left. The best complete ones are run (run_plan),
/// and improved by single moves of a cut, of a stage's degrees, and of degrees or devices between two stages. Devices
/// of a stage number up to eight, or a power of two; on more than 64 devices nothing is searched, and there is no
/// bound.
StageDegreesFound search_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options, LayerTables& tables,
                                       std::optional<Nanoseconds> least);

}  // namespace trainyard
