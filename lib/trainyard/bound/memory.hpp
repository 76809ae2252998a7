#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Makespan lower bounds for schedules that fit in memory; schedules that do not may be shorter.
///
/// A device holds the parameters and state of its ops for the whole step, and at the end of the step all kept tensors
/// that ops of non-zero duration produced on it. So with W(group) = the sum of both over the group's ops, the groups on
/// a device of capacity M have sum W <= M in every schedule that fits.

/// Work and memory: the linear program min T with sum over classes of x(group, class) = 1, the load of class c at most
/// D(c) T, and its bytes at most M(c), the capacities of its devices together.
/// Proof: as work_bound, with a price v(c) >= 0 on the bytes of each class whose devices all have a capacity:
///
///     sum over groups of min over c of (w(c) p'(group, c) + v(c) W(group))
///         <=  sum w(c) D(c) (T + g(c)) + sum v(c) M(c)
///
/// for any weights and prices. They are searched by golden section for two classes and by multiplicative updates for
/// more. Returns 0 if no class is limited or all devices are of one class. The bound is useful for CPUs with much
/// memory beside fast GPUs with little.
Nanoseconds memory_work_bound(const Problem& problem);

/// Longest chain through a transfer that memory forces.
/// Proof: if the bytes W of a set of groups that edges connect exceed the largest capacity, the groups are on two or
/// more devices, and some edge between two of them crosses. A tensor that crosses from u to i takes at least its
/// shortest transfer time c, so T >= head(u) + p(u) + c + p(i) + tail(i), with the heads and tails of
/// chains_with_transfers. The minimum over all edges of the set is a bound; control edges have c = 0. The sets are the
/// connected components of the graph. Returns 0 if a device has no capacity.
Nanoseconds forced_transfer_bound(const Problem& problem);

namespace detail {

/// W by group, in bytes.
std::vector<std::int64_t> group_bytes(const Problem& problem);

}  // namespace detail

}  // namespace trainyard
