#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// A mean time, or a sum of mean times, as a whole number of 1/scale nanoseconds. Ranks that are equal on paper are
/// thus equal here, and ties break as documented.
__extension__ using ScaledTime = __int128;

/// Mean costs over devices, in 1/scale() ns:
///
///     mean(op)     = sum of its durations over the devices that can run it / their number
///     mean(tensor) = sum of its transfer times over the ordered pairs of distinct devices / their number
///
/// The scale is the least common multiple of all these divisors. If it is beyond 2^40 (odd mixes of dozens of devices),
/// the scale is 2^40 and the means are rounded down.
class MeanCosts {
 public:
  explicit MeanCosts(const Problem& problem);

  ScaledTime mean(OpId op) const { return ops_[op]; }
  /// 0 if no op reads the tensor, or on a single device.
  ScaledTime mean(TensorId tensor) const { return tensors_[tensor]; }
  std::int64_t scale() const { return scale_; }

 private:
  std::int64_t scale_ = 1;
  IdMap<OpId, ScaledTime> ops_;
  IdMap<TensorId, ScaledTime> tensors_;
};

/// Upward ranks. With j over the ops that must follow i, and tensor(i, j) the tensor from i to j (none on a control
/// edge),
///
///     rank(i) = mean(i) + max over j of (mean(tensor(i, j)) + rank(j)).
///
/// An op's rank is at least those of its successors. H. Topcuoglu, S. Hariri, M. Wu: Performance-effective and
/// low-complexity task scheduling for heterogeneous computing. IEEE TPDS 13(3), 2002.
IdMap<OpId, ScaledTime> upward_ranks(const Problem& problem, const MeanCosts& means);
/// Upward ranks with weights of the ops, at least 0, in place of their means. Throws InputError ("size") unless each op
/// has a weight.
IdMap<OpId, ScaledTime> upward_ranks(const Problem& problem, const MeanCosts& means,
                                     const IdMap<OpId, ScaledTime>& weights);

/// Static levels, the upward ranks without transfers: level(i) = mean(i) + max over j of level(j), with j over the ops
/// that must follow i.
IdMap<OpId, ScaledTime> static_levels(const Problem& problem, const MeanCosts& means);

/// Downward ranks: rank(i) = max over j of (rank(j) + mean(j) + mean(tensor(j, i))), with j over the ops that i must
/// follow; 0 if there is none.
IdMap<OpId, ScaledTime> downward_ranks(const Problem& problem, const MeanCosts& means);

/// All ops by descending rank; ties go to the earlier op in the graph's topological order, so that every op comes after
/// all that it depends on. Throws InputError ("size") unless each op has a rank.
std::vector<OpId> by_descending_rank(const Problem& problem, const IdMap<OpId, ScaledTime>& ranks);

/// Priorities for policy `priority`, in HEFT's order: by_descending_rank() with upward ranks over mean costs.
IdMap<OpId, double> rank_priorities(const Problem& problem);

/// All ops by descending priority (ties: lower id), and the position of each op in that list. Heaps of ops compare
/// positions instead of priorities.
struct PriorityOrder {
  std::vector<OpId> ops;
  IdMap<OpId, std::uint32_t> position;
};
PriorityOrder priority_order(const IdMap<OpId, ScaledTime>& priority);

/// All ops in a topological order: of the ops whose predecessors have been taken, the one with the highest priority is
/// next; ties go to the lower id. Throws InputError ("size") unless each op has a priority.
std::vector<OpId> by_priority_when_free(const Problem& problem, const IdMap<OpId, ScaledTime>& priority);

}  // namespace trainyard
