#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/place/kit/effort.hpp"

namespace trainyard {

/// What adds up over a run of ops, and may not be more than a limit.
struct RunWeight {
  Nanoseconds time;
  Bytes bytes;
};

/// Optimal sequential partition: cuts an order of all ops, each after all that it depends on, into runs of ops that
/// follow each other, none beyond the limit (but for an op that alone is), such that the bytes between runs are least:
/// a tensor counts once for every run, not its producer's, that reads it. Returns the position at which each run
/// begins. Among equals the fewest runs, then the earlier cuts.
///
///     F(j) = min over i of F(i) + c(i, j),  i..j-1 within the limit;   c: the tensors from before i that i..j-1 reads
///
/// c is carried from j to j + 1: what op j reads first in a run adds to the runs that began after its producer and
/// after its last reader before j. O(ops x the longest run + edges).
///
/// B. W. Kernighan: Optimal sequential partitions of graphs. Journal of the ACM 18(1), 1971, where an edge counts, not
/// a tensor.
std::vector<std::size_t> sequential_partition(const Graph& graph, const std::vector<OpId>& order,
                                              const IdMap<OpId, RunWeight>& weights, const RunWeight& limit,
                                              Checkpoint checkpoint = Checkpoint{});

}  // namespace trainyard
