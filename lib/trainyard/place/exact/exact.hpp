#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/place/exact/branch_and_bound.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The shortest schedule that fits of some quick placers (single, heft, etf, critical-path, cpop, peft, dsc, m-etf); of
/// equals the first. None where none fits. `stop` leaves out those that were not asked by then, but for `single`.
std::optional<Schedule> best_quick_schedule(const Problem& problem, const std::function<bool()>& stop = {});

/// branch_and_bound from best_quick_schedule. Where it finds nothing that fits, what `single` gives.
/// `most_nodes` 0: a million divided by the number of ops, which takes a fraction of a second for
/// small problems.
BranchAndBoundResult exact_schedule(const Problem& problem, std::uint64_t most_nodes = 0,
                                    const std::function<bool()>& stop = {});

}  // namespace trainyard
