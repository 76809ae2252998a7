#include "trainyard/cost/kernel_fusion.hpp"

namespace trainyard::detail {
namespace {

/// The op to which the tensor passes in registers; none if there is none.
OpId passes_to(const Graph& graph, TensorId tensor, bool (*streams)(std::string_view type)) {
  const OpId producer = graph.producer(tensor);
  OpId reader = OpId::none();
  for (const OpId consumer : graph.consumers(tensor)) {
    if (graph.phase(consumer) != graph.phase(producer)) continue;
    if (!reader.is_none()) return OpId::none();
    reader = consumer;
  }
  if (reader.is_none() || !streams(graph.type(producer)) || !streams(graph.type(reader))) return OpId::none();
  const auto written = graph.outputs(reader);
  const bool alike = !written.empty() && graph.bytes(*written.begin()) == graph.bytes(tensor);
  return alike ? reader : OpId::none();
}

}  // namespace

FusedPart fused_part(const Graph& graph, OpId op, bool (*streams)(std::string_view type)) {
  FusedPart part;
  if (!streams(graph.type(op))) return part;
  double all = 0, moved = 0;
  for (const TensorId tensor : graph.inputs(op)) {
    const auto bytes = static_cast<double>(graph.bytes(tensor).count);
    all += bytes;
    if (passes_to(graph, tensor, streams) != op) moved += bytes;
  }
  for (const TensorId tensor : graph.outputs(op)) {
    const auto bytes = static_cast<double>(graph.bytes(tensor).count);
    all += bytes;
    const bool passed = !passes_to(graph, tensor, streams).is_none();
    if (passed) part.launches = false;
    if (!passed || graph.kept(tensor) || graph.consumers(tensor).size() > 1) moved += bytes;
  }
  if (all > 0) part.moved = moved / all;
  return part;
}

}  // namespace trainyard::detail
