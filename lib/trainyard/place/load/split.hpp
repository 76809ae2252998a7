#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/throughput/contraction.hpp"
#include "trainyard/throughput/evaluate.hpp"

namespace trainyard {

/// The part of one device in a contiguous split, or several devices of a kind that share its samples.
struct SplitPart {
  KindId kind;
  std::size_t replicas = 1;
  std::vector<BlockId> blocks;  // ascending
  Picoseconds load{};

  friend bool operator==(const SplitPart&, const SplitPart&) = default;
};

/// A contiguous split: a chain of ideals, cut into parts.
struct Split {
  Picoseconds value = kInfiniteLoad;  // of the busiest part; kInfiniteLoad: no valid split
  std::vector<SplitPart> parts = {};  // in the order of the chain
  std::size_t ideals = 0;
  std::uint64_t pairs = 0;  // nested pairs of ideals that were visited
  /// If SplitOptions::table is set: the value of the best split with at most the given number of devices of each kind,
  /// kInfiniteLoad if there is none. The index runs over the numbers of the first kind, the second, ...; the last
  /// changes fastest.
  std::vector<Picoseconds> table = {};

  bool found() const { return value != kInfiniteLoad; }
};

/// Hybrid data parallelism: several devices take turns with the samples. With r of them a part's load per sample is
///
///     (load on one device) / r + 4 (r - 1) size / (bandwidth r) / r
///
/// The second term is the exchange of gradients as PipeDream's program counts it. Each device holds the whole part.
struct Replication {
  std::size_t most = 1;  // devices per part
  BytesPerSecond bandwidth{};
};

struct SplitOptions {
  LoadSum sum = LoadSum::added;
  Replication replication = {};
  Picoseconds limit = kInfiniteLoad;  // splits above it are not searched
  bool table = false;                 // fill Split::table; slow for large graphs, as nothing can be pruned
  std::size_t most_ideals = 60'000;
  std::function<bool()> stop = {};  // polled throughout: throws OutOfTime; dpl() returns its best so far
};

/// The placement of a split without replicas. The parts of a kind go to its devices in order.
LoadPlacement placement_of(const Split& split, const Contraction& contraction, const LoadProblem& problem);

}  // namespace trainyard
