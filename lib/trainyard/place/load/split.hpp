#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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
  Picoseconds value = kInfiniteLoad;  // of the busiest part; kInfiniteLoad: there is no split that keeps the rules
  std::vector<SplitPart> parts = {};  // in the order of the chain
  std::size_t ideals = 0;
  std::uint64_t pairs = 0;  // nested pairs of ideals that were looked at
  /// The value of the best split with at most so many devices of each kind, where it was asked for: by the number of
  /// the first kind, then of the second, ... (the last changes fastest); kInfiniteLoad where there is none.
  std::vector<Picoseconds> table = {};

  bool found() const { return value != kInfiniteLoad; }
};

/// Several devices that take turns with the samples (hybrid data parallelism). With r of them a part's load is
///
///     (what it is on one device) / r + 4 (r - 1) size / (bandwidth r) / r
///
/// per sample, the exchange of gradients as PipeDream's program counts it; each device holds the whole part.
struct Replication {
  std::size_t most = 1;  // devices of one part
  BytesPerSecond bandwidth{};
};

struct SplitOptions {
  LoadSum sum = LoadSum::added;
  Replication replication = {};
  Picoseconds limit = kInfiniteLoad;  // splits above it are not looked for
  bool table = false;                 // Split::table; slow for large graphs: nothing can be pruned
  std::size_t most_ideals = 60'000;
  std::function<bool()> stop = {};  // asked all the time: throws OutOfTime; dpl() keeps what it found before
};

/// The placement of a split without replicas: the parts of a kind go to its devices in their order.
LoadPlacement placement_of(const Split& split, const Contraction& contraction, const LoadProblem& problem);

}  // namespace trainyard
