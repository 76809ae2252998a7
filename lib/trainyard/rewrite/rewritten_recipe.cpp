#include "trainyard/rewrite/rewritten_recipe.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/recipes/batch_shares.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"
#include "trainyard/rewrite/recompute.hpp"

namespace trainyard {

OpRecipe detail::recipe_of_copy(OpRecipe recipe, const Graph& graph, OpId op, const Graph& rewritten, OpId copy,
                                const TensorNames& names) {
  const auto reads = graph.inputs(op), now = rewritten.inputs(copy);
  const auto made = graph.outputs(op), again = rewritten.outputs(copy);
  const auto turn = [&](TensorId& tensor) {
    if (const auto at = std::ranges::find(reads, tensor); at != reads.end())
      tensor = now[static_cast<std::size_t>(at - reads.begin())];
    else if (std::find(made.begin(), made.end(), tensor) != made.end())
      tensor = TensorId{(*again.begin()).index() + tensor.index() - (*made.begin()).index()};
    else  // a tensor of another rank of a collective
      tensor = names.at(graph.name(tensor));
  };
  for_each_tensor(recipe, turn);
  return recipe;
}

namespace {

/// The step after consecutive Recompute or Offload rewrites.
detail::RewrittenStep with_copies(const Graph& graph, const TrainingRecipe& recipe, std::span<const Rewrite> rewrites) {
  Graph rewritten = apply_rewrites(graph, rewrites);
  const OpIndex index{graph};
  const detail::TensorNames names{rewritten};
  TrainingRecipe result = recipe;
  result.ops.clear();
  for (const OpId op : rewritten.ops()) {
    // Both rewrites add their ops after the existing ones.
    std::string_view name = rewritten.name(op);
    const bool again = op.index() >= graph.op_count() && name.ends_with(kAgain);
    if (again) name.remove_suffix(std::string_view{kAgain}.size());
    if (again || op.index() < graph.op_count()) {
      const OpId original = *index.find(name);
      result.ops.push_back(detail::recipe_of_copy(recipe.ops[original], graph, original, rewritten, op, names));
      OpRecipe& how = result.ops[op];
      const bool loss = how.kind == OpRecipe::Kind::forward && !recipe.loss.is_none() &&
                        (how.loss_share || recipe.model.nodes[how.node].outputs[0] == recipe.loss);
      if (again && loss) how.loss_share = 0;  // it counts once
      continue;
    }
    OpRecipe relay;
    relay.kind = OpRecipe::Kind::relay;
    relay.reads = {{.tensor = rewritten.inputs(op)[0]}};
    result.ops.push_back(std::move(relay));
  }
  return {std::move(rewritten), std::move(result), 0};
}

[[noreturn]] void refuse_rewrite(std::size_t number, const Finding& finding) {
  Finding at = finding;
  at.pointer = "/splits/" + std::to_string(number);
  throw InputError(std::move(at));
}

}  // namespace

TrainingRecipe rewritten_recipe(const TrainingRecipe& recipe, const Graph& graph, std::span<const Rewrite> rewrites) {
  detail::RewrittenStep step{graph, recipe, 0};
  for (std::size_t number = 0; number < rewrites.size(); ++number) {
    const Rewrite& rewrite = rewrites[number];
    std::size_t end = number + 1;
    const bool in_runs = std::holds_alternative<Recompute>(rewrite) || std::holds_alternative<Offload>(rewrite);
    while (in_runs && end < rewrites.size() && rewrites[end].index() == rewrite.index()) ++end;
    try {
      if (in_runs)
        step = with_copies(step.graph, step.recipe, rewrites.subspan(number, end - number));
      else if (const auto* batch = std::get_if<Microbatch>(&rewrite))
        step = detail::microbatch_step(step.graph, step.recipe, *batch);
      else if (const auto* replicate = std::get_if<Replicate>(&rewrite))
        step = detail::replicated_step(step.graph, step.recipe, *replicate);
      else if (const auto* parallel = std::get_if<TensorParallel>(&rewrite))
        step = detail::ranked_step(step.graph, step.recipe, *parallel);
      else if (const auto* split = std::get_if<SplitOp>(&rewrite))
        step = detail::split_step(step.graph, step.recipe, *split);
      else if (const auto* tied = std::get_if<TiedCopies>(&rewrite))
        step = detail::tied_step(step.graph, step.recipe, *tied);
      else
        step = detail::meshes_step(step.graph, step.recipe, std::get<StageMeshes>(rewrite));
    } catch (const InputError& error) {
      refuse_rewrite(number, error.findings().front());
    }
    number = end - 1;
  }
  return std::move(step.recipe);
}

}  // namespace trainyard
