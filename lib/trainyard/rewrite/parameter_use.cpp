#include "trainyard/rewrite/parameter_use.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kScalar = 8;  // bytes

bool makes_weight_gradients(const std::string& type) { return type.ends_with("GradW") || type.ends_with("GradB"); }
/// Whether only rows of a table are read, as many as are asked for.
bool looks_up(const std::string& type) { return type == "Gather" || type == "EmbeddingGrad"; }

}  // namespace

ParameterUse::ParameterUse(const Graph& graph)
    : reads(graph.op_count()),
      in_group(graph.op_count(), false),
      is_gradient(parameter_gradients(graph)),
      adds_gradients(graph.op_count(), false),
      hands_on_weights(graph.op_count(), false),
      weights_read(graph.op_count(), Bytes{0}),
      for_all(graph.tensor_count(), false) {
  std::map<std::string_view, std::vector<OpId>> holders;
  for (const OpId op : graph.ops()) {
    const auto outputs = graph.outputs(op);
    adds_gradients[op] =
        (graph.type(op) == "AddGrad" || graph.type(op) == kReduceType) &&
        std::all_of(outputs.begin(), outputs.end(), [&](TensorId t) { return static_cast<bool>(is_gradient[t]); });
    if (!holds_parameters(graph, op)) continue;
    reads[op].push_back(op);
    if (!graph.colocation_group(op).empty()) holders[graph.colocation_group(op)].push_back(op);
  }
  for (const OpId op : graph.ops()) {
    const auto found = holders.find(graph.colocation_group(op));
    if (found == holders.end() || holds_parameters(graph, op) || graph.phase(op) == Phase::update) continue;
    in_group[op] = true;
    if (adds_gradients[op] || makes_weight_gradients(graph.type(op))) continue;
    for (const OpId holder : found->second)
      if (graph.layer(holder) == graph.layer(op)) reads[op].push_back(holder);
    if (reads[op].empty()) reads[op] = found->second;
  }
  find_weights(graph);
  find_for_all(graph);
}

void ParameterUse::find_weights(const Graph& graph) {
  const auto ops = graph.ops();
  for (const OpId op : ops)
    if (!looks_up(graph.type(op)))
      for (const OpId holder : reads[op]) weights_read[op] += graph.parameter_bytes(holder);
  if (std::none_of(ops.begin(), ops.end(), [&](OpId op) { return graph.type(op) == kVariableType; })) return;

  const auto hands_on = [&](OpId maker) { return bool{hands_on_weights[maker]}; };
  const auto is_weight = [&](TensorId tensor) { return hands_on(graph.producer(tensor)); };
  std::map<std::string_view, std::vector<TensorId>> gradients;  // whole ones, by group
  for (const OpId op : graph.topological_order()) {
    if (graph.phase(op) == Phase::update) continue;
    const auto inputs = graph.inputs(op);
    const auto after = graph.after(op);  // as of the ranks of a collective
    hands_on_weights[op] = graph.type(op) == kVariableType ||
                           (inputs.empty() ? !after.empty() && std::all_of(after.begin(), after.end(), hands_on)
                                           : std::all_of(inputs.begin(), inputs.end(), is_weight));
    for (const TensorId tensor : graph.outputs(op)) {
      const auto takes_whole = [&](OpId reader) {
        return graph.phase(reader) == Phase::update || graph.type(reader) == kRelayType;
      };
      if (is_gradient[tensor] && graph.type(op) != kRelayType && graph.type(op) != kReduceType &&
          std::ranges::all_of(graph.consumers(tensor), takes_whole))
        gradients[graph.colocation_group(op)].push_back(tensor);
    }
  }
  for (const OpId op : ops) {
    if (graph.phase(op) == Phase::update || hands_on_weights[op] || looks_up(graph.type(op))) continue;
    Bytes handed_on{0}, of_layer{0}, of_group{0};
    for (const TensorId tensor : graph.inputs(op))
      if (is_weight(tensor)) handed_on += graph.bytes(tensor);
    if (handed_on == Bytes{0}) continue;
    if (!graph.colocation_group(op).empty())
      for (const TensorId tensor : gradients[graph.colocation_group(op)]) {
        of_group += graph.bytes(tensor);
        if (graph.layer(graph.producer(tensor)) == graph.layer(op)) of_layer += graph.bytes(tensor);
      }
    const Bytes own = of_layer > Bytes{0} ? of_layer : of_group;
    weights_read[op] = own > Bytes{0} ? std::min(own, handed_on) : handed_on;
  }
}

void ParameterUse::find_for_all(const Graph& graph) {
  const auto first_extent = [&](OpId op) -> double {
    const auto shapes = detail::parse_signature(graph.signature(op));
    return shapes && shapes->write_count > 0 && shapes->writes[0].rank > 0 ? shapes->writes[0].dims[0] : 0;
  };
  const auto is_input = [&](TensorId tensor) { return graph.type(graph.producer(tensor)) == "Input"; };
  const auto ops = graph.ops();
  const auto reads_samples =
      std::find_if(ops.begin(), ops.end(), [&](OpId op) { return std::ranges::any_of(graph.inputs(op), is_input); });
  if (reads_samples == ops.end()) return;
  const double samples = first_extent(*reads_samples);
  const auto is_fixed = [&](TensorId tensor) { return for_all[tensor] || hands_on_weights[graph.producer(tensor)]; };
  for (const OpId op : graph.topological_order()) {
    if (graph.phase(op) != Phase::forward || graph.type(op) == "Input" || hands_on_weights[op] ||
        !std::ranges::all_of(graph.inputs(op), is_fixed))
      continue;
    const double rows = first_extent(op);
    for (const TensorId tensor : graph.outputs(op)) for_all[tensor] = rows > 0 && rows != samples;
  }
}

bool ParameterUse::multiplies_weights(const Graph& graph, OpId op) const {
  const auto outputs = graph.outputs(op);
  return graph.type(op).starts_with("MatMul") &&
         (weights_read[op] > Bytes{0} ||
          std::any_of(outputs.begin(), outputs.end(), [&](TensorId tensor) { return bool{is_gradient[tensor]}; }));
}

bool holds_parameters(const Graph& graph, OpId op) {
  return graph.phase(op) != Phase::update && (graph.parameter_bytes(op).count > 0 || graph.state_bytes(op).count > 0);
}

bool trains_parameters(const Graph& graph) {
  const auto ops = graph.ops();
  return std::any_of(ops.begin(), ops.end(), [&](OpId op) { return graph.phase(op) == Phase::update; }) &&
         std::any_of(ops.begin(), ops.end(),
                     [&](OpId op) { return graph.parameter_bytes(op).count > 0 && graph.type(op) != kVariableType; });
}

std::int64_t share_of(std::int64_t whole, std::size_t part, std::size_t parts) {
  __extension__ using Wide = __int128;
  const auto until = [&](std::size_t end) {
    return static_cast<std::int64_t>(static_cast<Wide>(whole) * static_cast<Wide>(end) / static_cast<Wide>(parts));
  };
  return until(part + 1) - until(part);
}

template <class OpSpecOrView>
bool take_share_of_work(OpSpecOrView& op, const Graph& graph, OpId id, const ParameterUse& use, std::size_t part,
                        std::size_t parts) {
  const auto made = graph.outputs(id);
  if (parts == 1 || use.hands_on_weights[id] || (!made.empty() && use.for_all[*made.begin()])) return false;
  std::int64_t whole = use.weights_read[id].count;  // bytes of traffic that are not divided
  for (const TensorId tensor : graph.inputs(id))
    if (graph.statistics(tensor) || use.for_all[tensor]) whole += graph.bytes(tensor).count;
  std::size_t number = 0;
  for (const TensorId tensor : made) {
    auto& output = op.outputs[number++];
    if (use.is_gradient[tensor] || graph.statistics(tensor))
      whole += graph.bytes(tensor).count;
    else if (output.bytes.count > kScalar)
      output.bytes = Bytes{share_of(output.bytes.count, part, parts)};
  }
  if (use.adds_gradients[id]) return false;
  if (op.collective) {
    const auto makes_gradients = [&](OpId member) {
      const auto arrays = graph.outputs(member);
      return std::any_of(arrays.begin(), arrays.end(), [&](TensorId t) { return bool{use.is_gradient[t]}; });
    };
    if (std::ranges::none_of(graph.before(id), makes_gradients))
      op.collective->bytes = Bytes{share_of(op.collective->bytes.count, part, parts)};
  }
  const std::int64_t traffic = op.bytes_accessed.count;
  whole = std::min(whole, traffic);
  op.bytes_accessed = Bytes{whole + share_of(traffic - whole, part, parts)};
  op.workspace_bytes = Bytes{share_of(op.workspace_bytes.count, part, parts)};
  op.flops.value /= static_cast<double>(parts);
  for (auto& given : op.times) given.time = Nanoseconds{share_of(given.time.count, part, parts)};
  return true;
}
template bool take_share_of_work(OpSpec&, const Graph&, OpId, const ParameterUse&, std::size_t, std::size_t);
template bool take_share_of_work(OpView&, const Graph&, OpId, const ParameterUse&, std::size_t, std::size_t);

void take_share(OpSpec& spec, const Graph& graph, OpId op, const ParameterUse& use, std::size_t part,
                std::size_t parts) {
  if (take_share_of_work(spec, graph, op, use, part, parts))
    spec.signature =
        detail::part_signature(spec.signature, 1 / static_cast<double>(parts), use.multiplies_weights(graph, op));
}

}  // namespace trainyard
