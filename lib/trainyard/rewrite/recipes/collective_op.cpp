
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"

namespace trainyard::detail {
namespace {

/// The whole collective whose result the op has; none() for another op.
OpId collective_before(const Graph& graph, OpId op) {
  for (const OpId earlier : graph.after(op))
    if (graph.collective(earlier)) return earlier;
  return OpId::none();
}

/// Makes the op compute the result of rank `rank` from the arrays of all ranks.
void take_result(OpRecipe& how, const Exchanged& exchanged, std::size_t rank) {
  using Kind = CollectiveKind;
  const std::size_t n = how.reads.size();
  how.kind = exchanged.kind == Kind::all_reduce || exchanged.kind == Kind::reduce_scatter ? OpRecipe::Kind::sum
                                                                                          : OpRecipe::Kind::join;
  if (exchanged.kind == Kind::reduce_scatter || exchanged.kind == Kind::all_to_all)
    for (Operand& read : how.reads) read.parts.push_back({exchanged.cut, rank, n});
  if (exchanged.kind == Kind::shift) {
    how.kind = OpRecipe::Kind::sum;
    how.reads = {how.reads[(rank + n - 1) % n]};
  }
  how.joined = how.kind == OpRecipe::Kind::join ? exchanged.joined : std::nullopt;
}

}  // namespace

OpRecipe collective_op(const Graph& graph, OpId op, const Exchanged& exchanged) {
  OpRecipe how;
  how.kind = OpRecipe::Kind::rest;
  if (graph.collective(op)) return how;
  const auto inputs = graph.inputs(op);
  const auto outputs = graph.outputs(op);
  for (const TensorId output : outputs) how.results.push_back({.position = 0, .parts = {{.tensor = output}}});
  if (const OpId collective = collective_before(graph, op); !collective.is_none() && !inputs.empty()) {
    std::size_t rank = 0;
    for (const OpId ready : graph.after(collective)) {
      const TensorId has = *graph.outputs(ready).begin();
      if (has == inputs[0]) rank = how.reads.size();
      how.reads.push_back({.tensor = has});
    }
    take_result(how, exchanged, rank);
    return how;
  }
  for (const TensorId input : inputs) how.reads.push_back({.tensor = input});
  if (inputs.empty() || outputs.empty()) return how;
  if (graph.type(op) == kReduceType || graph.type(op) == kAggregateType ||
      (inputs.size() == 1 && outputs.size() == 1)) {
    how.kind = OpRecipe::Kind::sum;
    return how;
  }
  how.kind = OpRecipe::Kind::join;
  if (outputs.size() > 1 && inputs.size() == 1) how.cut = exchanged.cut;
  if (inputs.size() > 1 && outputs.size() == 1) how.joined = exchanged.joined;
  return how;
}

}  // namespace trainyard::detail
