#include "trainyard/rewrite/context_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard::detail {
namespace {

constexpr std::string_view kForward = "Attention", kBackward = "AttentionGrad";

/// Ops that mix rows even if their result is as large as their input.
bool mixes_rows(std::string_view type) {
  constexpr std::array<std::string_view, 12> kMixing{"Conv",      "Pool",   "RNN",       "LSTM",
                                                     "GRU",       "CumSum", "BatchNorm", "InstanceNorm",
                                                     "GroupNorm", "Resize", "LRN",       "Einsum"};
  return std::ranges::any_of(kMixing, [&](std::string_view each) { return type.find(each) != std::string_view::npos; });
}

/// Whether each row of the result depends only on that row of the operands, and on parameters.
bool is_by_row(const Graph& graph, OpId op, const ParameterUse& use) {
  const std::string& type = graph.type(op);
  if (mixes_rows(type)) return false;
  if (type.starts_with("Gather") || type.starts_with("SoftmaxCrossEntropy") || type.starts_with("Expert")) return true;
  if (type == "MatMul" || type == "Gemm") return !use.reads[op].empty();
  const auto shapes = parse_signature(graph.signature(op));
  if (!shapes || shapes->read_count == 0 || shapes->write_count == 0) return true;
  const SignatureTensor &read = shapes->reads[0], &write = shapes->writes[0];
  return read.rank == write.rank &&
         std::equal(read.dims.begin(), read.dims.begin() + std::max<std::size_t>(1, read.rank) - 1, write.dims.begin());
}

std::vector<TensorId> outputs_of(const Graph& graph, OpId op) {
  const auto made = graph.outputs(op);
  return {made.begin(), made.end()};
}

}  // namespace

ContextUse::ContextUse(const Graph& graph, std::size_t among, ContextExchange by)
    : made(graph.tensor_count(), Part::rows),
      queries(graph.op_count(), TensorId::none()),
      keys(graph.op_count(), TensorId::none()),
      values(graph.op_count(), TensorId::none()),
      ranks(among),
      exchange(by) {
  if (ranks == 1) return;
  const ParameterUse use{graph};
  bool any = false;
  for (const OpId op : graph.ops()) {
    const std::string& type = graph.type(op);
    const bool backward = type == kBackward;
    if (type != kForward && !backward) {
      if (graph.phase(op) == Phase::forward && !is_by_row(graph, op, use))
        refuse("context",
               fmt::format("'{}' ({}) combines several rows of the sequence that is to be divided among {} ranks",
                           graph.name(op), type, ranks),
               type == "MatMul"
                   ? kTakeFusedAttention
                   : "use context parallelism only for networks whose ops, except attention, work row by row");
      continue;
    }
    any = true;
    const auto inputs = graph.inputs(op);
    const std::vector<TensorId> outputs = outputs_of(graph, op);
    const std::size_t first = backward ? 1 : 0;  // a backward op reads the gradient of the result first
    if (inputs.size() < first + 3 || outputs.size() < (backward ? 3 : 1))
      refuse("context", fmt::format("attention '{}' does not have separate queries, keys and values", graph.name(op)),
             "use context parallelism only for attention of three different tensors that are all trained");
    if (!backward && inputs.size() > 3)
      refuse("context", fmt::format("attention '{}' adds a bias or mask of all rows to the scores", graph.name(op)),
             "use context parallelism only for attention without a bias or mask");
    queries[op] = inputs[first];
    keys[op] = inputs[first + 1];
    values[op] = inputs[first + 2];
    if (by == ContextExchange::ring) continue;
    if (by == ContextExchange::all_gather) {
      if (backward) made[outputs[1]] = made[outputs[2]] = Part::all;
      continue;
    }
    for (std::size_t i = 0; i < (backward ? 3U : 1U); ++i) made[outputs[i]] = Part::heads;
    const auto shapes = parse_signature(graph.signature(op));
    if (!shapes) continue;
    for (const std::size_t i : {first, first + 1})
      if (const auto heads = static_cast<std::size_t>(shapes->reads[i].rank == 4 ? shapes->reads[i].dims[1] : 0);
          heads % ranks != 0)
        refuse("context",
               fmt::format("the {} heads{} of '{}' cannot be divided equally among {} ranks", heads,
                           i == first ? "" : " of keys and values", graph.name(op), ranks),
               "take a number of ranks that divides them, or exchange by all-gather");
  }
  if (!any)
    refuse("context",
           fmt::format("graph '{}' has no attention whose sequence could be divided among ranks", graph.name()),
           kTakeFusedAttention);
}

bool ContextUse::makes_gradients(const Graph& graph, OpId op) { return graph.type(op) == kBackward; }

ContextUse::Part ContextUse::taken(const Graph& graph, OpId reader, TensorId tensor) const {
  if (!is_attention(reader) || exchange == ContextExchange::ring) return Part::rows;
  const bool of_keys = tensor == keys[reader] || tensor == values[reader];
  if (exchange == ContextExchange::all_gather) return of_keys ? Part::all : Part::rows;
  // The backward op reads the result by heads, as attention made it. The other tensors saved for it are not exchanged.
  const bool gradient = graph.phase(reader) == Phase::backward && tensor == graph.inputs(reader).front();
  return of_keys || tensor == queries[reader] || gradient || made[tensor] == Part::heads ? Part::heads : Part::rows;
}

std::vector<ContextCollective> ContextUse::collectives(const Graph& graph) const {
  std::vector<ContextCollective> all;
  const auto n = static_cast<std::int64_t>(ranks);
  for (const OpId op : graph.ops()) {
    if (!is_attention(op)) continue;
    const bool backward = graph.phase(op) == Phase::backward;
    const std::vector<TensorId> outputs = outputs_of(graph, op);
    if (exchange == ContextExchange::ring) {
      const Bytes around = graph.bytes(keys[op]) + graph.bytes(values[op]);
      if (!makes_gradients(graph, op)) {
        all.push_back({CollectiveKind::shift, around, op, ranks - 1, true});
        continue;
      }
      const Bytes gradients = graph.bytes(outputs[1]) + graph.bytes(outputs[2]);
      all.push_back({CollectiveKind::shift, around + gradients, op, ranks - 1, true});
      all.push_back({CollectiveKind::shift, gradients, op});
      continue;
    }
    if (exchange == ContextExchange::all_gather) {
      for (const TensorId tensor : {keys[op], values[op]})
        all.push_back({CollectiveKind::all_gather, n * graph.bytes(tensor), op});
      for (std::size_t i = 1; backward && i < 3; ++i)
        all.push_back({CollectiveKind::reduce_scatter, n * graph.bytes(outputs[i]), op});
      continue;
    }
    if (backward)
      all.push_back({CollectiveKind::all_to_all, graph.bytes(graph.inputs(op).front()), op});
    else
      for (const TensorId tensor : {queries[op], keys[op], values[op]})
        all.push_back({CollectiveKind::all_to_all, graph.bytes(tensor), op});
    for (std::size_t i = 0; i < (backward ? 3U : 1U); ++i)
      all.push_back({CollectiveKind::all_to_all, graph.bytes(outputs[i]), op});
  }
  return all;
}

Bytes ContextUse::accessed_besides(const Graph& graph, OpId op) const {
  Bytes all{0};
  if (!is_attention(op) || exchange == ContextExchange::all_to_all) return all;
  // Each further step accesses as many bytes as the rank's share.
  if (exchange == ContextExchange::ring) return static_cast<std::int64_t>(ranks - 1) * graph.bytes_accessed(op);
  for (const TensorId tensor : {keys[op], values[op]}) all += graph.bytes(tensor);
  for (const TensorId tensor : graph.outputs(op))
    if (made[tensor] == Part::all) all += graph.bytes(tensor);
  return static_cast<std::int64_t>(ranks - 1) * all;
}

bool shares_context(const Graph& graph, std::size_t ranks, ContextExchange exchange, std::size_t tensor) {
  try {
    const ContextUse use{graph, exchange == ContextExchange::all_to_all ? ranks * tensor : ranks, exchange};
    return std::ranges::all_of(graph.ops(), [&](OpId op) {
      if (!use.is_attention(op)) return true;
      const auto shapes = parse_signature(graph.signature(op));
      const std::size_t queries = ContextUse::makes_gradients(graph, op) ? 1 : 0;
      return !shapes || shapes->reads[queries].rank != 4 ||
             static_cast<std::size_t>(shapes->reads[queries].dims[2]) % ranks == 0;
    });
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace trainyard::detail
