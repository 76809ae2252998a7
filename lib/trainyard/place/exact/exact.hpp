#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/place/exact/branch_and_bound.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Returns the shortest schedule that fits in memory of some quick placers (single, heft, etf, critical-path, cpop,
/// peft, dsc, m-etf), the first of them on a tie; nothing if none fits. Once `stop` returns true the placers not yet
/// run are skipped, except `single`.
std::optional<Schedule> best_quick_schedule(const Problem& problem, const std::function<bool()>& stop = {});

/// branch_and_bound, started from best_quick_schedule. If no schedule fits in memory, the schedule of `single` is
/// returned. `most_nodes` 0 stands for a million divided by the number of ops, which takes a fraction of a second for
/// small problems. Problems with more than 128 devices or 20,000 ops are not searched.
BranchAndBoundResult exact_schedule(const Problem& problem, std::uint64_t most_nodes = 0,
                                    const std::function<bool()>& stop = {});

}  // namespace trainyard
