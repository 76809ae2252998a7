#include "trainyard/rewrite/expert_use.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/sharding.hpp"

namespace trainyard::detail {
namespace {

/// Signature of an op on 1/parts of its experts. All of its tensors are [experts, ...].
std::string signature_of_experts(std::string_view text, std::size_t parts) {
  auto shapes = OpShapes::parse(text);
  if (!shapes) return std::string{text};
  for (auto* side : {&shapes->reads, &shapes->writes})
    for (OpShapes::Tensor& tensor : *side)
      if (!tensor.extents.empty()) tensor.extents.front() /= static_cast<std::int64_t>(parts);
  return shapes->text();
}

}  // namespace

ExpertUse::ExpertUse(const Graph& graph) : inside(graph.op_count(), false), has_rows(graph.tensor_count(), false) {
  for (const OpId op : graph.topological_order()) {
    const std::string& type = graph.type(op);
    const auto inputs = graph.inputs(op);
    const auto outputs = graph.outputs(op);
    if (type == "ExpertDispatch") {
      has_rows[*outputs.begin()] = true;
      if (const auto shapes = parse_signature(graph.signature(op)); shapes && shapes->write_count > 0)
        counts.push_back(static_cast<std::size_t>(shapes->writes[0].dims[0]));
    } else if (type == "ExpertCombineGrad") {
      has_rows[*outputs.begin()] = true;  // gradient of the rows; the second output is that of the router's weights
    } else if (type != "ExpertCombine" && type != "ExpertDispatchGrad") {
      inside[op] = std::ranges::any_of(inputs, [&](TensorId tensor) { return bool{has_rows[tensor]}; });
      for (const TensorId tensor : outputs) has_rows[tensor] = inside[op];
    }
  }
}

void take_experts(OpSpec& spec, const Graph& graph, OpId op, const ParameterUse& use, ExpertShare share,
                  std::size_t parts) {
  const auto of = [&](std::int64_t whole) { return share_of(whole, share.part, share.of); };
  const auto part = [&](Bytes whole) { return Bytes{of(whole.count)}; };
  spec.parameter_bytes = part(spec.parameter_bytes);
  spec.state_bytes = part(spec.state_bytes);
  Bytes weights{0};
  for (const OpId holder : use.reads[op]) weights += graph.parameter_bytes(holder);
  std::size_t number = 0;
  for (const TensorId tensor : graph.outputs(op)) {
    OutputSpec& output = spec.outputs[number++];
    if (!use.is_gradient[tensor]) continue;
    weights += graph.bytes(tensor);
    output.bytes = part(output.bytes);
  }
  if (graph.phase(op) == Phase::update || use.adds_gradients[op]) {
    weights = spec.bytes_accessed;
    spec.flops.value /= static_cast<double>(share.of);
    for (GivenTime& given : spec.times) given.time = Nanoseconds{of(given.time.count)};
    spec.signature = signature_of_experts(spec.signature, share.of);
  } else {
    const double rows = static_cast<double>(share.of) / static_cast<double>(parts);
    spec.signature = signature_of_experts(graph.signature(op), share.of);
    if (rows != 1) spec.signature = part_signature(spec.signature, rows, use.multiplies_weights(graph, op));
  }
  weights = std::min(weights, spec.bytes_accessed);
  spec.bytes_accessed = spec.bytes_accessed - weights + part(weights);
}

}  // namespace trainyard::detail
