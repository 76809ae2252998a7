#include <fmt/format.h>

#include <utility>

#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/recipes/batch_shares.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"

namespace trainyard::detail {

RewrittenStep microbatch_step(const Graph& graph, const TrainingRecipe& recipe, const Microbatch& microbatch) {
  MicrobatchGraph made = split_batch(graph, microbatch.parts, microbatch.at_once);
  if (microbatch.parts == 1) return {std::move(made.graph), recipe, 0};
  TrainingRecipe result = without_ops(recipe, 0);
  BatchShares shares{graph, recipe, result, {.samples = microbatch.parts, .outermost = true}};
  shares.find();
  const TensorNames names{made.graph};
  for (const OpId op : made.graph.ops()) {
    const OpId original = made.original[op];
    const std::size_t part = made.microbatch[op];
    const auto in_part = [&](TensorId tensor) {
      const bool once = graph.type(graph.producer(tensor)) == kVariableType;
      return names.at(copy_name(graph.name(tensor), kMicrobatchMark, once ? 0 : part));
    };
    if (part == microbatch.parts) {  // an update, which exists once
      const auto sum_of = [&](TensorId tensor) {
        if (graph.phase(graph.producer(tensor)) == Phase::update) return names.at(graph.name(tensor));
        return names.at(fmt::format("{}/accumulate~{}", graph.name(tensor), part));
      };
      OpRecipe how = recipe.ops[original];
      for (Operand& read : how.reads)
        if (!read.tensor.is_none()) read.tensor = sum_of(read.tensor);
      for (OpRecipe::Result& each : how.results)
        for (Operand& piece : each.parts) piece.tensor = names.at(graph.name(piece.tensor));
      result.ops.push_back(std::move(how));
      continue;
    }
    if (made.graph.name(op) != copy_name(graph.name(original), kMicrobatchMark, part)) {
      OpRecipe sum;  // sum of the gradients of earlier parts and this one
      sum.kind = OpRecipe::Kind::sum;
      for (const TensorId tensor : made.graph.inputs(op)) sum.reads.push_back({.tensor = tensor});
      sum.results.push_back({.position = 0, .parts = {{.tensor = *made.graph.outputs(op).begin()}}});
      result.ops.push_back(std::move(sum));
      continue;
    }
    result.ops.push_back(
        shares.share(original, {part}, {.tensor = in_part, .held = [](ValueId value) { return value; }}));
  }
  return {std::move(made.graph), std::move(result), 0};
}

}  // namespace trainyard::detail
