#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// A collective of n ranks on S bytes. S is the size of each rank's array: before an all-reduce, reduce-scatter,
/// all-to-all or shift (which passes each rank's array to the next rank), and after an all-gather or broadcast.
enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, shift };
inline constexpr int kCollectiveKinds = 6;

/// "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "shift".
const char* name_of(CollectiveKind kind);
std::optional<CollectiveKind> find_collective_kind(std::string_view name);

/// An op that is a collective: one task with many end points, which runs on no device. It starts after all ops in its
/// `after` list have ended. It occupies the links among the devices of these ops and of its members, the ops that come
/// after it, for the time of the collective on `bytes` (problem/collective_run.hpp). An op is a member of at most one
/// collective; a member makes at most one tensor: the array that its rank holds afterwards.
///
/// In a fold, some ranks of the graph stand for others. The collective then runs on `ranks` devices d, d + stride, d +
/// 2 stride, ..., where d is the device of the first op before it; the other ops' devices are among these.
struct CollectiveTask {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;            // S of CollectiveKind
  std::size_t ranks = 1;  // at least 1
  std::size_t stride = 1;

  friend bool operator==(const CollectiveTask&, const CollectiveTask&) = default;
};

}  // namespace trainyard
