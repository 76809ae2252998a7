#include <algorithm>
#include <utility>
#include <vector>

#include "trainyard/training/expansion.hpp"

namespace trainyard::detail {

OpRecipe& Expansion::recipe(DraftGraph::Index op, OpRecipe::Kind kind) {
  if (recipes_.size() <= op) recipes_.resize(op + 1);
  recipes_[op].kind = kind;
  return recipes_[op];
}

Operand Expansion::operand(const Seen& seen) const {
  return {seen.tensor == kNone ? TensorId::none() : TensorId{seen.tensor}, ValueId::none(), seen.views};
}

Operand Expansion::operand(ValueId id) const {
  if (id.is_none()) return {};
  if (tensor_[id] != kNone) return operand(Seen{tensor_[id], views_[id]});
  return {TensorId::none(), roots_[id], views_[id]};
}

std::vector<DraftGraph::Index> Expansion::tensors(const std::vector<Seen>& seen) {
  std::vector<Tensor> result;
  for (const Seen& each : seen) result.push_back(each.tensor);
  return result;
}

std::vector<Operand> Expansion::by_output(const Node& node, const std::vector<Seen>& gradients,
                                          const std::vector<ValueId>& of) const {
  std::vector<Operand> result(node.outputs.size());
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    if (const auto at = std::find(of.begin(), of.end(), node.outputs[i]); at != of.end())
      result[i] = operand(gradients[static_cast<std::size_t>(at - of.begin())]);
  return result;
}

OpRecipe::Result Expansion::result(Tensor tensor, std::size_t position) {
  return {position, {Operand{.tensor = TensorId{tensor}}}};
}

void Expansion::note_slice(Tensor slice, Tensor of, std::vector<ViewStep> views) {
  if (slice_views_.size() <= slice) slice_views_.resize(slice + 1);
  std::vector<ViewStep> from_whole = of < slice_views_.size() ? slice_views_[of] : std::vector<ViewStep>{};
  from_whole.insert(from_whole.end(), views.begin(), views.end());
  slice_views_[slice] = std::move(from_whole);
}

TrainingRecipe Expansion::finish_recipe(const Graph& graph, const std::vector<TensorId>& declared) {
  recipes_.resize(graph.op_count());
  slice_views_.resize(declared.size());
  std::vector<std::vector<Tensor>> slices(declared.size());  // declared slices, by whole
  for (Tensor t = 0; t < declared.size(); ++t)
    if (draft_.whole(t) != t && !declared[t].is_none()) slices[draft_.whole(t)].push_back(t);
  const auto settle = [&](Operand& operand) {
    if (operand.tensor.is_none()) return;
    const Tensor tensor = operand.tensor.index();
    if (declared[tensor].is_none()) {  // another name for part of its whole
      operand.tensor = declared[draft_.whole(tensor)];
      operand.views.insert(operand.views.begin(), slice_views_[tensor].begin(), slice_views_[tensor].end());
    } else {
      operand.tensor = declared[tensor];
    }
  };
  for (OpRecipe& op : recipes_) {
    for (auto* list : {&op.reads, &op.gradients, &op.outputs})
      for (Operand& operand : *list) settle(operand);
    for (TensorId& extra : op.extras) extra = declared[extra.index()];
    for (OpRecipe::Result& result : op.results) {
      const Tensor tensor = result.parts[0].tensor.index();
      result.parts.clear();
      if (!declared[tensor].is_none()) result.parts.push_back({.tensor = declared[tensor]});
      for (const Tensor slice : slices[tensor])
        result.parts.push_back({.tensor = declared[slice], .views = slice_views_[slice]});
    }
  }
  const ValueId loss = seed_.is_none() ? ValueId::none() : model_.nodes[seed_].outputs[0];
  return {std::move(model_), loss, options_.optimizer, IdMap<OpId, OpRecipe>{std::move(recipes_)}, options_.clip_norm};
}

}  // namespace trainyard::detail
