#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

using GroupId = Id<struct GroupTag>;

/// Partition of the ops into groups that must share a device. Groups are numbered by their first op. If every op is
/// alone, as in most large graphs, only the list of ops is stored.
class ColocationGroups {
 public:
  ColocationGroups() = default;
  explicit ColocationGroups(const Graph& graph);

  GroupId group(OpId op) const { return group_.empty() ? GroupId{op.index()} : group_[op]; }
  std::span<const OpId> ops(GroupId group) const {
    return group_.empty() ? std::span{alone_}.subspan(group.index(), 1) : ops_[group];
  }
  std::size_t count() const { return group_.empty() ? alone_.size() : ops_.rows(); }

 private:
  std::vector<OpId> alone_;     // all ops, if every op is alone; else empty
  IdMap<OpId, GroupId> group_;  // of each op, if some share a group; else empty
  CompressedRows<GroupId, OpId> ops_;
};

}  // namespace trainyard
