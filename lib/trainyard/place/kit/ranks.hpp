#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// A mean time, or a sum of mean times, counted in 1/scale nanoseconds: whole numbers, so that ranks that are equal on
/// paper are equal here and ties fall as documented.
__extension__ using ScaledTime = __int128;

/// Means over devices, in 1/scale() ns:
///
///     mean(op)     = sum of its durations over the devices that can run it / their number
///     mean(tensor) = sum of its transfer times over the ordered pairs of distinct devices / their number
///
/// The scale is the least common multiple of all the numbers divided by; beyond 2^40 (odd mixes of dozens of devices)
/// it is 2^40 and the means are rounded down to it.
class MeanCosts {
 public:
  explicit MeanCosts(const Problem& problem);

  ScaledTime mean(OpId op) const { return ops_[op]; }
  /// 0 where nobody reads the tensor or there is one device only.
  ScaledTime mean(TensorId tensor) const { return tensors_[tensor]; }
  std::int64_t scale() const { return scale_; }

 private:
  std::int64_t scale_ = 1;
  IdMap<OpId, ScaledTime> ops_;
  IdMap<TensorId, ScaledTime> tensors_;
};

/// rank(i) = mean(i) + max over what must follow j of (mean(tensor from i to j) + rank(j)); a control edge has no
/// tensor. An op's rank is at least those of its successors.
/// H. Topcuoglu, S. Hariri, M. Wu: Performance-effective and low-complexity task scheduling for heterogeneous
/// computing. IEEE TPDS 13(3), 2002.
IdMap<OpId, ScaledTime> upward_ranks(const Problem& problem, const MeanCosts& means);
/// Ranks by weights of the ops, at least 0, in place of their means. Throws InputError ("size") unless each op has one.
IdMap<OpId, ScaledTime> upward_ranks(const Problem& problem, const MeanCosts& means,
                                     const IdMap<OpId, ScaledTime>& weights);

/// Upward ranks without transfers: level(i) = mean(i) + max over what must follow j of level(j).
IdMap<OpId, ScaledTime> static_levels(const Problem& problem, const MeanCosts& means);

/// rank(i) = max over what i must follow j of (rank(j) + mean(j) + mean(tensor from j to i)); 0 where it follows
/// nothing.
IdMap<OpId, ScaledTime> downward_ranks(const Problem& problem, const MeanCosts& means);

/// All ops by descending rank; ties go to the earlier op in the graph's topological order, so that every op comes after
/// all that it depends on. Throws InputError ("size") unless each op has a rank.
std::vector<OpId> by_descending_rank(const Problem& problem, const IdMap<OpId, ScaledTime>& ranks);

/// Priorities for policy `priority`: the order of by_descending_rank by upward rank over mean costs, HEFT's.
IdMap<OpId, double> rank_priorities(const Problem& problem);

/// All ops by descending priority, ties by ascending id, and where each op is in that list: what a heap of ops is best
/// ordered by.
struct PriorityOrder {
  std::vector<OpId> ops;
  IdMap<OpId, std::uint32_t> position;
};
PriorityOrder priority_order(const IdMap<OpId, ScaledTime>& priority);

/// All ops, of those whose predecessors have been taken always the one of the highest priority; ties go to the lower
/// id. Throws InputError ("size") unless each op has a priority.
std::vector<OpId> by_priority_when_free(const Problem& problem, const IdMap<OpId, ScaledTime>& priority);

}  // namespace trainyard
