#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

struct MergeOptions {
  std::size_t most_groups = 128;
  /// Ends where every group sends at least this much.
  Bytes enough{std::numeric_limits<std::int64_t>::max()};
  /// Only ops with the same number go together; empty: any.
  IdMap<OpId, std::uint32_t> kind = {};
  /// Weight of each op; empty: 0.
  IdMap<OpId, std::int64_t> weight = {};
  /// Groups weigh at most this much; it doubles as long as it leaves more than most_groups. Colocation groups and
  /// single ops may weigh more.
  std::int64_t heaviest = std::numeric_limits<std::int64_t>::max();
  std::function<void()> checkpoint = {};  // called before each merge: what it throws ends the merging
};

/// The ops of a graph dealt to groups: the map there, and back.
struct OpGroups {
  IdMap<OpId, std::uint32_t> of;
  std::vector<std::vector<OpId>> ops;  // of each group, in topological order; groups by their first ops in it
};

/// Ops with the same label are a group. Throws InputError ("size") unless each op has one.
OpGroups groups_by(const Graph& graph, const IdMap<OpId, std::uint32_t>& label);

/// Merge-and-colocate (Addanki et al.: Placeto, NeurIPS 2019, A.6): again and again the group that sends the fewest
/// bytes to others joins the consumer to which it sends the most, or the producer from which it receives the most where
/// it has no consumer, until there are few enough. Groups without neighbours join each other. Colocation groups of the
/// graph stay together. As published, without a limit on their weight, one group grows and grows: it has half of the
/// run time and more. Ties go to the group with the lower first op. The groups may depend on each other in cycles.
/// Throws InputError: "size" (kinds or weights that are not of the ops), "range" (weights below 0, or of 2^63
/// together).
OpGroups merge_and_colocate(const Graph& graph, const MergeOptions& options = {});

}  // namespace trainyard
