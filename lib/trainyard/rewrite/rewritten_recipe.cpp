#include "trainyard/rewrite/rewritten_recipe.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "trainyard/rewrite/recompute.hpp"

namespace trainyard {
namespace {

/// The recipe of `op` for `copy`, whose inputs and outputs are those of the op by position.
OpRecipe recipe_of_copy(const OpRecipe& recipe, const Graph& graph, OpId op, const Graph& rewritten, OpId copy) {
  OpRecipe result = recipe;
  const auto reads = graph.inputs(op), now = rewritten.inputs(copy);
  const auto made = graph.outputs(op), again = rewritten.outputs(copy);
  const auto turn = [&](TensorId& tensor) {
    if (const auto at = std::ranges::find(reads, tensor); at != reads.end())
      tensor = now[static_cast<std::size_t>(at - reads.begin())];
    else if (!tensor.is_none())
      tensor = TensorId{(*again.begin()).index() + tensor.index() - (*made.begin()).index()};
  };
  for (auto* operands : {&result.reads, &result.gradients, &result.outputs})
    for (Operand& operand : *operands) turn(operand.tensor);
  for (TensorId& extra : result.extras) turn(extra);
  for (OpRecipe::Result& each : result.results)
    for (Operand& part : each.parts) turn(part.tensor);
  return result;
}

}  // namespace

std::optional<TrainingRecipe> rewritten_recipe(const TrainingRecipe& recipe, const Graph& graph,
                                               std::span<const Rewrite> rewrites, const Graph& rewritten) {
  if (!std::ranges::all_of(rewrites, [](const Rewrite& rewrite) {
        return std::holds_alternative<Recompute>(rewrite) || std::holds_alternative<Offload>(rewrite);
      }))
    return std::nullopt;
  const OpIndex index{graph};
  TrainingRecipe result = recipe;
  result.ops.clear();
  for (const OpId op : rewritten.ops()) {
    // Both rewrites add their ops behind the others.
    std::string_view name = rewritten.name(op);
    const bool again = op.index() >= graph.op_count() && name.ends_with(kAgain);
    if (again) name.remove_suffix(std::string_view{kAgain}.size());
    if (again || op.index() < graph.op_count()) {
      const OpId original = *index.find(name);
      result.ops.push_back(recipe_of_copy(recipe.ops[original], graph, original, rewritten, op));
      continue;
    }
    OpRecipe relay;
    relay.kind = OpRecipe::Kind::relay;
    relay.reads = {{.tensor = rewritten.inputs(op)[0]}};
    result.ops.push_back(std::move(relay));
  }
  return result;
}

}  // namespace trainyard
