#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trainyard/graph/collective_task.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::detail {

/// A rewritten graph, and what its ops compute.
struct RewrittenStep {
  Graph graph;
  TrainingRecipe recipe;
  std::size_t buckets = 0;  // of gradients, that replicas add
};

/// The recipe of a rewritten graph of so many ops, which are yet to be said.
inline TrainingRecipe without_ops(const TrainingRecipe& recipe, std::size_t op_count) {
  return {.model = recipe.model,
          .loss = recipe.loss,
          .optimizer = recipe.optimizer,
          .ops = IdMap<OpId, OpRecipe>(op_count),
          .own_statistics = recipe.own_statistics,
          .copies = recipe.copies};
}

/// use(tensor): each that the op reads or makes, to be changed in place.
template <class Use>
void for_each_tensor(OpRecipe& recipe, const Use& use) {
  const auto each = [&](TensorId& tensor) {
    if (!tensor.is_none()) use(tensor);
  };
  for (auto* operands : {&recipe.reads, &recipe.gradients, &recipe.outputs})
    for (Operand& operand : *operands) each(operand.tensor);
  for (TensorId& extra : recipe.extras) each(extra);
  for (OpRecipe::Result& result : recipe.results)
    for (Operand& part : result.parts) each(part.tensor);
}

// What the ops compute that a rewrite makes of a graph whose recipe is given. Each throws InputError ("not-executed"),
// naming the op, where that is not known, besides what the rewrite throws.

RewrittenStep split_step(const Graph& graph, const TrainingRecipe& recipe, const SplitOp& split);
RewrittenStep microbatch_step(const Graph& graph, const TrainingRecipe& recipe, const Microbatch& microbatch);
RewrittenStep ranked_step(const Graph& graph, const TrainingRecipe& recipe, const TensorParallel& parallel);
RewrittenStep replicated_step(const Graph& graph, const TrainingRecipe& recipe, const Replicate& replicate,
                              std::size_t first_bucket = 0);
RewrittenStep meshes_step(const Graph& graph, const TrainingRecipe& recipe, const StageMeshes& meshes);
RewrittenStep tied_step(const Graph& graph, const TrainingRecipe& recipe, const TiedCopies& tied);

/// An array that is divided among ranks, and cut otherwise afterwards.
struct Exchanged {
  CollectiveKind kind;
  std::optional<Cut> joined, cut;  // by which parts arrive, and are sent; none: end to end
};
/// An op of a collective, by what it reads and makes: what adds, hands on, divides or joins parts, and what has the
/// result of a whole one, as the sum or the parts of what all ranks were ready with.
OpRecipe collective_op(const Graph& graph, OpId op, const Exchanged& exchanged);

}  // namespace trainyard::detail
