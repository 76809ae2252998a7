#include "trainyard/graph/graph.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard {

std::span<const GivenTime> Graph::given_times(OpId op) const {
  if (first_given_time_.empty()) return {};
  const auto first = first_given_time_[op.index()];
  return std::span{given_times_}.subspan(first, first_given_time_[op.index() + 1] - first);
}

std::optional<OpId> Graph::find_op(std::string_view wanted) const {
  for (const OpId op : ops())
    if (name(op) == wanted) return op;
  return std::nullopt;
}

std::size_t Graph::memory_bytes() const {
  std::size_t total = sizeof(*this) + tensor_bytes_.size() * sizeof(Bytes) + producer_.size() * sizeof(OpId) +
                      first_output_.capacity() * sizeof(std::uint32_t) +
                      first_given_time_.capacity() * sizeof(std::uint32_t) +
                      topological_order_.capacity() * sizeof(OpId) + given_times_.capacity() * sizeof(GivenTime);
  const auto add = [&](const auto&... parts) { total += (parts.memory_bytes() + ...); };
  add(op_names_, tensor_names_, inputs_, after_, before_, consumers_);
  add(type_, layer_, signature_, colocate_, phase_, flops_, bytes_accessed_, parameter_bytes_, state_bytes_,
      workspace_bytes_, device_kinds_, collective_, tensor_kind_);
  total += collectives_.capacity() * sizeof(CollectiveTask);
  // Each word is stored twice, in the vocabulary's list and as a hash key, plus a hash node of about 16 bytes.
  for (const auto& word : words_.words()) total += 2 * (sizeof(std::string) + word.capacity()) + 16;
  return total;
}

OpIndex::OpIndex(const Graph& graph) {
  ids_.reserve(graph.op_count());
  for (const OpId op : graph.ops()) ids_.emplace(graph.name(op), op);
}

std::optional<OpId> OpIndex::find(std::string_view name) const {
  const auto at = ids_.find(name);
  return at == ids_.end() ? std::nullopt : std::optional{at->second};
}

OpId OpIndex::at(std::string_view name, std::string_view pointer) const {
  if (const auto found = find(name)) return *found;
  std::vector<std::string> names(ids_.size());
  for (const auto& [each, op] : ids_) names[op.index()] = each;
  refuse("unknown-op", fmt::format("no op is named '{}'", name), did_you_mean(name, names), pointer);
}

}  // namespace trainyard
