#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/place/judge/orders.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Splits ops of the critical path in two while that shortens the schedule: the longest ops first, in every dimension
/// in which they can be split, the second half on each of the least busy devices in turn. All else stays where it is. A
/// split that does not shorten the run under fifo is given up before the graph is made. Ops of colocation groups stay
/// whole. Returns the schedule with its splits, or nothing if no split shortens it. `problem` has no splits, the
/// schedule may. Tries at most `most` splits; `stop` ends it.
std::optional<Ordered> split_critical_ops(const Problem& problem, const Ordered& start, std::size_t most,
                                          std::uint64_t& evaluations, const std::function<bool()>& stop);

}  // namespace trainyard
