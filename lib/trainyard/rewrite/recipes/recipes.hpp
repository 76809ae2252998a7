#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "trainyard/graph/collective_task.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::detail {

class TensorNames;

/// A rewritten graph and the computation of its ops.
struct RewrittenStep {
  Graph graph;
  TrainingRecipe recipe;
  std::size_t buckets = 0;  // buckets of gradients that replicas add
};

/// The recipe of a rewritten graph of `op_count` ops, with the ops still to be filled in.
inline TrainingRecipe without_ops(const TrainingRecipe& recipe, std::size_t op_count) {
  return {.model = recipe.model,
          .loss = recipe.loss,
          .optimizer = recipe.optimizer,
          .ops = IdMap<OpId, OpRecipe>(op_count),
          .clip_norm = recipe.clip_norm,
          .own_statistics = recipe.own_statistics,
          .copies = recipe.copies};
}

/// Calls use(tensor) for each tensor that the op reads or makes. `use` may change it.
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

/// Drops what the op does not read. Only one rank adds a term that all ranks have.
template <class Tensors>
void keep_read(std::vector<Operand>& reads, const Tensors& inputs) {
  std::erase_if(
      reads, [&](const Operand& read) { return std::find(inputs.begin(), inputs.end(), read.tensor) == inputs.end(); });
}

/// The recipe of `op`, for a `copy` whose inputs and outputs correspond to those of the op by position. Other tensors
/// keep their names, which `names` has of the copy's graph.
OpRecipe recipe_of_copy(OpRecipe recipe, const Graph& graph, OpId op, const Graph& rewritten, OpId copy,
                        const TensorNames& names);

// Each of these applies a rewrite to a graph and its recipe. Each throws what the rewrite throws, and InputError
// ("not-executed"), naming the op, if the computation of a rewritten op is not known.

RewrittenStep split_step(const Graph& graph, const TrainingRecipe& recipe, const SplitOp& split);
RewrittenStep microbatch_step(const Graph& graph, const TrainingRecipe& recipe, const Microbatch& microbatch);
RewrittenStep ranked_step(const Graph& graph, const TrainingRecipe& recipe, const TensorParallel& parallel);
RewrittenStep replicated_step(const Graph& graph, const TrainingRecipe& recipe, const Replicate& replicate,
                              std::size_t first_bucket = 0);
RewrittenStep meshes_step(const Graph& graph, const TrainingRecipe& recipe, const StageMeshes& meshes);
RewrittenStep tied_step(const Graph& graph, const TrainingRecipe& recipe, const TiedCopies& tied);

/// A collective on an array that is divided among ranks, and divided differently afterwards.
struct Exchanged {
  CollectiveKind kind;
  std::optional<Cut> joined, cut;  // how parts that arrive are joined, and those sent are cut; none: end to end
};
/// Recipe of an op of a collective, from what the op reads and makes: an op that adds, passes on, divides or joins
/// parts, or an op that has the result of a whole collective, the sum or parts of the arrays of all ranks.
OpRecipe collective_op(const Graph& graph, OpId op, const Exchanged& exchanged);

}  // namespace trainyard::detail
