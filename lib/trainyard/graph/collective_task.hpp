#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// A collective of n ranks on S bytes: the array that each rank has before an all-reduce, reduce-scatter, all-to-all or
/// shift (after which it has that of the rank before it), and after an all-gather or broadcast.
enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, shift };
inline constexpr int kCollectiveKinds = 6;

/// "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "shift".
const char* name_of(CollectiveKind kind);
std::optional<CollectiveKind> find_collective_kind(std::string_view name);

/// An op that is a collective: one task with many ends. No device runs it. It waits for the ops that it comes after,
/// and holds the links among the devices of these and of the ops that come after it, its members, for the time of the
/// collective on `bytes` (problem/collective_run.hpp). An op is a member of
/// one collective at most, and then makes one tensor at most, what its rank has afterwards.
///
/// In a fold, where some ranks of the graph stand for others, the devices are d, d + stride, d + 2 stride, ..., `ranks`
/// in all; d is that of the first op before it, and the others are on some of these.
struct CollectiveTask {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;            // S of CollectiveKind
  std::size_t ranks = 1;  // at least 1
  std::size_t stride = 1;

  friend bool operator==(const CollectiveTask&, const CollectiveTask&) = default;
};

}  // namespace trainyard
