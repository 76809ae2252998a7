#include "trainyard/rewrite/parameter_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "trainyard/core/error.hpp"
#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kScalar = 8;  // bytes

bool makes_weight_gradients(const std::string& type) { return type.ends_with("GradW") || type.ends_with("GradB"); }
/// Whether the op reads only the rows of a table that it looks up.
bool looks_up(const std::string& type) { return type == "Gather" || type == "EmbeddingGrad"; }

/// Whether a tensor of a signature can be an array of this size. `share`: fraction of it that the op has.
bool is_of_bytes(const detail::SignatureTensor& tensor, double share, Bytes bytes) {
  const auto is = [&](double each) {
    return std::abs(share * each * tensor.count() - static_cast<double>(bytes.count)) <= 1;
  };
  return tensor.type == detail::NumberKind::other ? is(8) || is(4) || is(1) : is(bytes_of(tensor.type));
}

/// Whether the first dimension of the tensor, as its readers see it, is one: it belongs to one sample, or to all. False
/// for initial states of a recurrent network, whose layers come first.
bool has_one_row(const Graph& graph, TensorId tensor) {
  bool one = false;
  for (const OpId reader : graph.consumers(tensor)) {
    const std::string& type = graph.type(reader);
    const auto shapes = detail::parse_signature(graph.signature(reader));
    if (!shapes) continue;
    for (std::size_t i = 0; i < std::min(shapes->read_count, shapes->reads.size()); ++i) {
      const detail::SignatureTensor& read = shapes->reads[i];
      if (read.rank == 0 || !is_of_bytes(read, shapes->share, graph.bytes(tensor))) continue;
      const bool of_layers = type == "LSTM" || type == "GRU" || type == "RNN" || type == "Gather";
      if (read.dims[0] != 1 || (of_layers && read.rank > 2 && read.type != detail::NumberKind::other)) return false;
      one = true;
    }
  }
  return one;
}

double first_extent(const Graph& graph, OpId op) {
  const auto shapes = detail::parse_signature(graph.signature(op));
  return shapes && shapes->write_count > 0 && shapes->writes[0].rank > 0 ? shapes->writes[0].dims[0] : 0;
}

/// Name of the forward op whose gradient, or part of it, the op of this name makes: "conv@2" for "conv/grad_x@2". Empty
/// if there is none.
std::string name_of_forward(std::string_view name) {
  const std::size_t at = name.rfind("/grad");
  if (at == std::string_view::npos) return {};
  const std::size_t marks = name.find_first_of("@~^", at);
  return std::string{name.substr(0, at)}.append(marks == std::string_view::npos ? "" : name.substr(marks));
}

}  // namespace

ParameterUse::ParameterUse(const Graph& graph, std::size_t context_ranks)
    : reads(graph.op_count()),
      in_group(graph.op_count(), false),
      is_gradient(parameter_gradients(graph)),
      adds_gradients(graph.op_count(), false),
      hands_on_weights(graph.op_count(), false),
      weights_read(graph.op_count(), Bytes{0}),
      for_all(graph.tensor_count(), false),
      is_for_all(graph.op_count(), false),
      context(context_ranks) {
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
  std::map<std::string_view, std::vector<TensorId>> gradients;  // undivided ones, by group
  for (const OpId op : graph.topological_order()) {
    if (graph.phase(op) == Phase::update) continue;
    const auto inputs = graph.inputs(op);
    const auto after = graph.after(op);  // the ranks' ops, if the op is a collective
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
  const auto is_input = [&](OpId op) { return graph.type(op) == "Input"; };
  const auto ops = graph.ops();
  const auto reader_of = [&](OpId input) {
    return std::find_if(ops.begin(), ops.end(), [&](OpId op) {
      return std::ranges::any_of(graph.inputs(op), [&](TensorId each) { return graph.producer(each) == input; });
    });
  };
  auto reader = ops.end();  // reader of the first input that has one; its result has all samples
  for (const OpId op : ops)
    if (reader == ops.end() && is_input(op)) reader = reader_of(op);
  if (reader == ops.end()) return;
  const double samples = first_extent(graph, *reader);
  bool any = false;
  const auto is_fixed = [&](TensorId tensor) { return for_all[tensor] || hands_on_weights[graph.producer(tensor)]; };
  for (const OpId op : graph.topological_order()) {
    if (graph.phase(op) != Phase::forward || hands_on_weights[op]) continue;
    if (is_input(op)) {
      for (const TensorId tensor : graph.outputs(op)) for_all[tensor] = samples > 1 && has_one_row(graph, tensor);
    } else if (std::ranges::all_of(graph.inputs(op), is_fixed)) {
      const double rows = first_extent(graph, op);
      for (const TensorId tensor : graph.outputs(op))
        for_all[tensor] = rows > 0 && (rows != samples || (samples > 1 && has_one_row(graph, tensor)));
    }
    const auto made = graph.outputs(op);
    is_for_all[op] = !made.empty() && for_all[*made.begin()];
    any = any || is_for_all[op];
  }
  if (any) find_gradients_for_all(graph);
}

/// Finds gradients whose readers are all for all samples: gradients of ops that are for all, and sums of these.
void ParameterUse::find_gradients_for_all(const Graph& graph) {
  std::unordered_map<std::string_view, OpId> forward;
  for (const OpId op : graph.ops())
    if (graph.phase(op) == Phase::forward) forward.emplace(graph.name(op), op);
  const auto& order = graph.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const OpId op = *at;
    if (graph.phase(op) != Phase::backward) continue;
    bool any = false;
    for (const TensorId tensor : graph.outputs(op)) {
      const auto readers = graph.consumers(tensor);
      for_all[tensor] =
          !readers.empty() && std::ranges::all_of(readers, [&](OpId reader) { return is_for_all[reader]; });
      any = any || for_all[tensor];
    }
    const auto of = forward.find(name_of_forward(graph.name(op)));
    is_for_all[op] = of == forward.end() ? any : is_for_all[of->second];
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

void check_batch(const Graph& graph, std::string_view code, std::string_view help) {
  if (!trains_parameters(graph))
    refuse(code, fmt::format("graph '{}' trains no parameters: it has no batch to divide", graph.name()), help);
}

std::int64_t share_of(std::int64_t whole, std::size_t part, std::size_t parts) {
  __extension__ using Wide = __int128;
  const auto until = [&](std::size_t end) {
    return static_cast<std::int64_t>(static_cast<Wide>(whole) * static_cast<Wide>(end) / static_cast<Wide>(parts));
  };
  return until(part + 1) - until(part);
}

template <class OpSpecOrView>
std::size_t take_share_of_work(OpSpecOrView& op, const Graph& graph, OpId id, const ParameterUse& use, std::size_t part,
                               std::size_t parts) {
  const std::size_t rows = std::min(parts, use.context);
  const bool for_all = use.is_for_all[id];
  if (for_all) part %= rows, parts = rows;
  if (parts == 1 || use.hands_on_weights[id]) return 0;
  std::int64_t whole = use.weights_read[id].count;  // bytes of traffic that are not divided
  std::int64_t by_rows = 0;                         // bytes that only ranks that share the rows divide
  for (const TensorId tensor : graph.inputs(id))
    if (graph.statistics(tensor))
      whole += graph.bytes(tensor).count;
    else if (use.for_all[tensor] && !for_all)
      by_rows += graph.bytes(tensor).count;
  std::size_t number = 0;
  for (const TensorId tensor : graph.outputs(id)) {
    auto& output = op.outputs[number++];
    if (use.is_gradient[tensor] || graph.statistics(tensor)) {
      whole += graph.bytes(tensor).count;
    } else if (output.bytes.count > kScalar) {
      const bool shared = use.for_all[tensor] && !for_all;
      if (shared) by_rows += output.bytes.count;
      output.bytes = Bytes{share_of(output.bytes.count, shared ? part % rows : part, shared ? rows : parts)};
    }
  }
  if (use.adds_gradients[id]) return 0;
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
  by_rows = std::min(by_rows, traffic - whole);
  op.bytes_accessed =
      Bytes{whole + share_of(by_rows, part % rows, rows) + share_of(traffic - whole - by_rows, part, parts)};
  op.workspace_bytes = Bytes{share_of(op.workspace_bytes.count, part, parts)};
  op.flops.value /= static_cast<double>(parts);
  for (auto& given : op.times) given.time = Nanoseconds{share_of(given.time.count, part, parts)};
  return parts;
}
template std::size_t take_share_of_work(OpSpec&, const Graph&, OpId, const ParameterUse&, std::size_t, std::size_t);
template std::size_t take_share_of_work(OpView&, const Graph&, OpId, const ParameterUse&, std::size_t, std::size_t);

void take_share(OpSpec& spec, const Graph& graph, OpId op, const ParameterUse& use, std::size_t part,
                std::size_t parts) {
  if (const std::size_t of = take_share_of_work(spec, graph, op, use, part, parts); of > 0)
    spec.signature =
        detail::part_signature(spec.signature, 1 / static_cast<double>(of), use.multiplies_weights(graph, op));
}

}  // namespace trainyard
