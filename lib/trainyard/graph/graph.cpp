#include "trainyard/graph/graph.hpp"

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
  const auto map_bytes = [](const auto& map) { return map.size() * sizeof(*map.begin()); };
  std::size_t total =
      sizeof(*this) + op_names_.memory_bytes() + tensor_names_.memory_bytes() + map_bytes(type_) + map_bytes(layer_) +
      map_bytes(signature_) + map_bytes(colocate_) + map_bytes(phase_) + map_bytes(flops_) +
      map_bytes(bytes_accessed_) + map_bytes(parameter_bytes_) + map_bytes(state_bytes_) + map_bytes(workspace_bytes_) +
      map_bytes(device_kinds_) + map_bytes(tensor_bytes_) + map_bytes(tensor_kept_) + map_bytes(producer_) +
      inputs_.memory_bytes() + after_.memory_bytes() + before_.memory_bytes() + consumers_.memory_bytes() +
      first_output_.capacity() * sizeof(std::uint32_t) + first_given_time_.capacity() * sizeof(std::uint32_t) +
      topological_order_.capacity() * sizeof(OpId) + given_times_.capacity() * sizeof(GivenTime);
  // A word is held twice, as the vocabulary's text and as its key, with a hash node of about 16 bytes.
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

}  // namespace trainyard
