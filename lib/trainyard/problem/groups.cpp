#include "trainyard/problem/groups.hpp"

#include <string_view>
#include <unordered_map>
#include <utility>

namespace trainyard {

ColocationGroups::ColocationGroups(const Graph& graph) {
  bool alone = true;
  for (const OpId op : graph.ops()) alone = alone && graph.colocation_group(op).empty();
  if (alone) {
    alone_.assign(graph.ops().begin(), graph.ops().end());
    return;
  }
  std::unordered_map<std::string_view, GroupId> named;  // never iterated over
  std::vector<std::pair<GroupId, OpId>> members;
  members.reserve(graph.op_count());
  std::size_t groups = 0;
  for (const OpId op : graph.ops()) {
    const std::string_view name = graph.colocation_group(op);
    const GroupId fresh{groups};
    const GroupId group = name.empty() ? fresh : named.try_emplace(name, fresh).first->second;
    if (group == fresh) ++groups;
    group_.push_back(group);
    members.emplace_back(group, op);
  }
  ops_ = CompressedRows<GroupId, OpId>(groups, members);
}

}  // namespace trainyard
