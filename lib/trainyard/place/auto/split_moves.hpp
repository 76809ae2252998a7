#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/place/judge/orders.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Splits ops of the critical path in two while that shortens the schedule: the longest ones first, in every dimension
/// in which they can be split, the second half on each of the least busy devices in turn; all else stays where it is. A
/// split whose run under fifo is not shorter than the one without it is given up before the graph is made.
/// Ops of colocation groups are left whole. What comes of it, with its splits; nothing where no split gains.
/// `problem` has no splits, the schedule may. At most `most` splits are tried; `stop` ends it.
std::optional<Ordered> split_critical_ops(const Problem& problem, const Ordered& start, std::size_t most,
                                          std::uint64_t& evaluations, const std::function<bool()>& stop);

}  // namespace trainyard
