#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/place/kit/effort.hpp"

namespace trainyard {

/// Weight of a run of ops. It adds up over the run and has a limit.
struct RunWeight {
  Nanoseconds time;
  Bytes bytes;
};

/// Optimal sequential partition. Cuts a topological order of all ops into runs of consecutive ops, none beyond the
/// limit (except an op that exceeds it alone), such that the bytes between runs are least. A tensor counts once for
/// every run that reads it, other than its producer's. Returns the position at which each run begins. Ties go to fewer
/// runs, then to the earlier cuts.
///
///     F(j) = min over i of F(i) + c(i, j),  i..j-1 within the limit;   c: the tensors from before i that i..j-1 reads
///
/// c is updated from j to j + 1: a tensor that op j reads adds to the runs that began after the tensor's producer and
/// after its last reader before j. O(ops x the longest run + edges).
///
/// B. W. Kernighan: Optimal sequential partitions of graphs. Journal of the ACM 18(1), 1971, where an edge counts, not
/// a tensor.
std::vector<std::size_t> sequential_partition(const Graph& graph, const std::vector<OpId>& order,
                                              const IdMap<OpId, RunWeight>& weights, const RunWeight& limit,
                                              Checkpoint checkpoint = Checkpoint{});

}  // namespace trainyard
