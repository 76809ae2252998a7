#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::detail {

/// Fills in out_of_memory of every device whose peak is above its capacity, from the spans and transfers of the
/// timeline, whose peaks are known.
///
/// Every holding is a half-open interval [from, until); one of length zero holds nothing. On a device are held
///
///     parameters and state    the whole step, [0, makespan]: also where the step takes no time
///     a tensor made there     from the start of its op until the latest of: the op's end, the ends of its consumers on
///                             that device, the ends of its outgoing transfers; a kept one until the makespan
///     a tensor that arrived   from the start of its transfer until the end of its last consumer there
///     an op's workspace       while the op runs
///
/// At one instant, first everything that ends lets go, then ops take what they hold (by id), then transfers (by
/// index): that is the order in which the one that crossed the capacity is named.
void diagnose_memory(const Problem& problem, const Placement& placement, Timeline& timeline);

}  // namespace trainyard::detail
