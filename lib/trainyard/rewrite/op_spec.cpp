#include "trainyard/rewrite/op_spec.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/training/optimizer.hpp"

namespace trainyard {
namespace {

/// Types that only add up or pass on. Such an op reads gradients of parameters if it makes nothing else.
bool hands_on_gradients(const std::string& type) {
  return type == "AddGrad" || type == kSumType || type == kConcatType || type == kAggregateType || type == kRelayType ||
         type == kReduceType;
}

}  // namespace

OpSpec spec_of(const Graph& graph, OpId op) {
  const auto kinds = graph.device_kinds(op);
  const auto times = graph.given_times(op);
  OpSpec spec{.name = std::string{graph.name(op)},
              .type = graph.type(op),
              .phase = graph.phase(op),
              .layer = graph.layer(op),
              .signature = graph.signature(op),
              .colocate = graph.colocation_group(op),
              .flops = graph.flops(op),
              .bytes_accessed = graph.bytes_accessed(op),
              .parameter_bytes = graph.parameter_bytes(op),
              .state_bytes = graph.state_bytes(op),
              .workspace_bytes = graph.workspace_bytes(op),
              .device_kinds = {kinds.begin(), kinds.end()},
              .times = {times.begin(), times.end()}};
  for (const TensorId tensor : graph.inputs(op)) spec.inputs.emplace_back(graph.name(tensor));
  for (const TensorId tensor : graph.outputs(op))
    spec.outputs.push_back(
        {std::string{graph.name(tensor)}, graph.bytes(tensor), graph.kept(tensor), graph.statistics(tensor)});
  for (const OpId earlier : graph.after(op)) spec.after.emplace_back(graph.name(earlier));
  if (const CollectiveTask* collective = graph.collective(op)) spec.collective = *collective;
  return spec;
}

void view_op(const Graph& graph, OpId op, OpView& view) {
  view.clear();
  view.name = graph.name(op);
  view.type = graph.type(op);
  view.layer = graph.layer(op);
  view.signature = graph.signature(op);
  view.colocate = graph.colocation_group(op);
  view.phase = graph.phase(op);
  view.flops = graph.flops(op);
  view.bytes_accessed = graph.bytes_accessed(op);
  view.parameter_bytes = graph.parameter_bytes(op);
  view.state_bytes = graph.state_bytes(op);
  view.workspace_bytes = graph.workspace_bytes(op);
  const auto kinds = graph.device_kinds(op);
  view.device_kinds.assign(kinds.begin(), kinds.end());
  for (const GivenTime& given : graph.given_times(op)) view.times.push_back({given.on, given.time});
  for (const TensorId tensor : graph.inputs(op)) view.inputs.push_back(graph.name(tensor));
  for (const TensorId tensor : graph.outputs(op))
    view.outputs.push_back({graph.name(tensor), graph.bytes(tensor), graph.kept(tensor), graph.statistics(tensor)});
  for (const OpId earlier : graph.after(op)) view.after.push_back(graph.name(earlier));
  if (const CollectiveTask* collective = graph.collective(op)) view.collective = *collective;
}

std::string copy_name(std::string_view name, char mark, std::size_t copy) {
  const std::string number = std::to_string(copy + 1);
  std::string text;
  text.reserve(name.size() + 1 + number.size());
  return text.append(name).append(1, mark).append(number);
}

void take_part_of_work(OpSpec& spec, std::size_t part, std::size_t parts) {
  spec.flops.value /= static_cast<double>(parts);
  spec.bytes_accessed = Bytes{share_of(spec.bytes_accessed.count, part, parts)};
  for (GivenTime& given : spec.times) given.time = Nanoseconds{share_of(given.time.count, part, parts)};
  spec.signature = detail::part_signature(spec.signature, 1 / static_cast<double>(parts));
}

Graph piece_graph(const Graph& graph, std::span<const TensorId> reads, const std::vector<OpSpec>& ops) {
  GraphBuilder builder{"piece"};
  OpSpec rest{.name = "/rest"};
  if (!ops.empty()) {  // it has the devices and times of the first op
    rest.device_kinds = ops.front().device_kinds;
    rest.times = ops.front().times;
  }
  for (OpSpec spec : ops) {
    spec.after.clear();
    builder.add(spec);
  }
  for (const TensorId tensor : reads) rest.outputs.push_back({std::string{graph.name(tensor)}, graph.bytes(tensor)});
  builder.add(rest);
  return std::move(builder).build();
}

IdMap<TensorId, bool> parameter_gradients(const Graph& graph) {
  IdMap<TensorId, bool> are(graph.tensor_count(), false);
  IdMap<OpId, bool> takes(graph.op_count(), false);  // the op reads only gradients
  const std::vector<OpId>& order = graph.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    takes[*at] = graph.phase(*at) == Phase::update || hands_on_gradients(graph.type(*at));
    for (const TensorId tensor : graph.outputs(*at)) {
      const auto readers = graph.consumers(tensor);
      are[tensor] = !readers.empty() && std::ranges::all_of(readers, [&](OpId reader) { return bool{takes[reader]}; });
      takes[*at] = takes[*at] && (are[tensor] || graph.phase(*at) == Phase::update);
    }
  }
  return are;
}

bool makes_only_gradients(const Graph& graph, OpId op, const IdMap<TensorId, bool>& gradients) {
  const auto made = graph.outputs(op);
  return graph.phase(op) == Phase::backward && !made.empty() &&
         std::all_of(made.begin(), made.end(), [&](TensorId tensor) { return bool{gradients[tensor]}; });
}

bool clips(const Graph& graph) {
  const auto ops = graph.ops();
  return std::any_of(ops.begin(), ops.end(), [&](OpId op) { return graph.type(op) == kClipScaleType; });
}

bool is_parameter_gradient(const Graph& graph, TensorId tensor) {
  std::vector<TensorId> open{tensor};
  std::set<TensorId> seen{tensor};
  while (!open.empty()) {
    const auto readers = graph.consumers(open.back());
    open.pop_back();
    if (readers.empty()) return false;
    for (const OpId reader : readers) {
      if (graph.phase(reader) == Phase::update) continue;
      if (!hands_on_gradients(graph.type(reader))) return false;
      for (const TensorId sum : graph.outputs(reader))
        if (seen.insert(sum).second) open.push_back(sum);
    }
  }
  return true;
}

}  // namespace trainyard
