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
  /// Merging ends when every group sends at least this many bytes.
  Bytes enough{std::numeric_limits<std::int64_t>::max()};
  /// Kind of each op; only ops of the same kind are merged. Empty: all are of one kind.
  IdMap<OpId, std::uint32_t> kind = {};
  /// Weight of each op; empty: 0.
  IdMap<OpId, std::int64_t> weight = {};
  /// Upper limit on the weight of a group. It is doubled as long as more than most_groups groups remain. Colocation
  /// groups and single ops may weigh more.
  std::int64_t heaviest = std::numeric_limits<std::int64_t>::max();
  std::function<void()> checkpoint = {};  // called before each merge; an exception from it ends the merging
};

/// A partition of a graph's ops into groups: the group of each op, and the ops of each group.
struct OpGroups {
  IdMap<OpId, std::uint32_t> of;
  std::vector<std::vector<OpId>> ops;  // by group, in topological order; groups in the order of their first ops
};

/// Groups the ops by label. Throws InputError ("size") unless each op has a label.
OpGroups groups_by(const Graph& graph, const IdMap<OpId, std::uint32_t>& label);

/// Merge-and-colocate (Addanki et al.: Placeto, NeurIPS 2019, A.6). Repeatedly merges the group that sends the fewest
/// bytes to others into the consumer to which it sends the most. A group without a consumer joins the producer from
/// which it receives the most. Ends when few enough groups are left. Groups without neighbours join each other, and
/// colocation groups of the graph stay together. Ties go to the group with the lower first op. The groups may depend on
/// each other in cycles. As published, without a limit on weight, one group keeps growing until it has half of the run
/// time or more. Throws InputError: "size" (kinds or weights without one entry per op), "range" (weights below 0, or
/// with a sum of 2^63 or more).
OpGroups merge_and_colocate(const Graph& graph, const MergeOptions& options = {});

}  // namespace trainyard
