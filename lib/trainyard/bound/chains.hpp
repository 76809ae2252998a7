#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// The least transfer time of the tensor between any two devices; kLongestTime if there is only one device.
Nanoseconds shortest_transfer(const Problem& problem, TensorId tensor);

/// Lower bounds for every schedule: head(i) on the start time of op i, tail(i) on the time from its end to the end of
/// the schedule.
struct Chains {
  IdMap<OpId, Nanoseconds> head, tail;
};

/// head(i), tail(i): the longest chain of ops before and after op i, itself excluded, each with its shortest duration.
/// Proof: an op starts after all that it depends on have ended, and lasts its shortest duration or more.
Chains chains_of_ops(const Problem& problem);

/// Heads and tails that include transfers at joins and forks; at least those of chains_of_ops. With p(u) the shortest
/// duration of u and c(u) the shortest transfer time of its tensors for i between any two devices,
///
///     head(i) = the least k such that k >= M{u: head(u) + p(u) + c(u) > k}, over the direct predecessors u of i,
///               and k >= head(u) + p(u) for each,
///
/// where M of a set is the least end time of its ops on one device: the maximum over thresholds a of a plus the work of
/// the ops in the set with head >= a, with gaps between them. Proof: let op i start at k. A predecessor with head(u) +
/// p(u) + c(u) > k cannot be on another device, because its tensor would arrive too late. So all these share the device
/// of i, which has run them one after the other by k. Predecessors colocated with i count with an infinite transfer.
/// Tails are heads of the graph with all edges reversed. After C. Papadimitriou and M. Yannakakis, "Towards an
/// architecture-independent analysis of parallel algorithms", SIAM J. Comput. 19(2), 1990, but without duplication of
/// ops, and with direct predecessors only.
Chains chains_with_transfers(const Problem& problem);

/// The longest head(i) + shortest(i) + tail(i). Throws InputError ("size") unless each op has a head and a tail.
Nanoseconds longest_chain(const Problem& problem, const Chains& chains);

}  // namespace trainyard
