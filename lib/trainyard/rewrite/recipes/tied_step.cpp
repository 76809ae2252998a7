#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/rewrite/recipes/batch_shares.hpp"
#include "trainyard/rewrite/recipes/local_model.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"
#include "trainyard/rewrite/tied_copies.hpp"

namespace trainyard::detail {
namespace {

/// Views through which terms of gradients are added up, by name of the term.
using Terms = std::map<std::string_view, std::vector<ViewStep>>;

/// Makes the op write its terms as they are added up, so that copies send each other elements in one order.
void make_as_added(OpRecipe& how, const Terms& views, const Graph& graph) {
  for (OpRecipe::Result& result : how.results)
    for (Operand& part : result.parts)
      if (const auto at = views.find(graph.name(part.tensor)); at != views.end())
        part.views.insert(part.views.end(), at->second.begin(), at->second.end());
}

}  // namespace

RewrittenStep tied_step(const Graph& graph, const TrainingRecipe& recipe, const TiedCopies& tied) {
  TiedCopiesGraph made = tie_copies(graph, tied);
  TrainingRecipe result = without_ops(recipe, made.graph.op_count());
  const OpIndex before{graph}, after{made.graph};
  const TensorNames names{made.graph};
  std::map<std::pair<std::size_t, ValueId>, ValueId> copies;  // by number of the copy
  for (std::size_t k = 1; k <= tied.copies.size(); ++k) {
    const std::string mark = tied_copy_name("", k);
    for (const OpId op : graph.ops()) {
      const OpRecipe& how = recipe.ops[op];
      const auto update = after.find(tied_copy_name(graph.name(op), k));
      if (how.kind != OpRecipe::Kind::update || !update) continue;
      const ValueId copy = LocalModel{result.model, {}}.copy(how.value, {}, mark);
      note_copy(result, copy, how.value, {});
      copies[{k, how.value}] = copy;
      OpRecipe& own = result.ops[*update] = how;
      own.value = copy;
      for (std::size_t i = 0; i < own.reads.size(); ++i) own.reads[i].tensor = made.graph.inputs(*update)[i];
    }
  }
  Terms views, own;  // of terms that updates exchange, and of those that are added up or passed on before
  for (const OpId op : graph.ops())
    if (const auto now = after.find(graph.name(op)); !now || made.graph.phase(*now) != graph.phase(op))
      for (const Operand& term : recipe.ops[op].reads) views[graph.name(term.tensor)] = term.views;
  for (const OpId op : made.graph.ops())
    if (made.graph.phase(op) == Phase::backward && !before.find(made.graph.name(op)))
      for (const TensorId term : made.graph.inputs(op)) own.insert(views.extract(made.graph.name(term)));
  std::map<OpId, std::size_t> place;
  for (std::size_t k = 1; k <= tied.copies.size(); ++k)
    for (const std::string& name : tied.copies[k - 1]) place[*before.find(name)] = k;
  for (const OpId op : made.graph.ops()) {
    OpRecipe& how = result.ops[op];
    if (how.kind == OpRecipe::Kind::update) continue;
    const std::string_view name = made.graph.name(op);
    const auto original = before.find(name);
    if (!original || made.graph.phase(op) != graph.phase(*original)) {
      how.kind = OpRecipe::Kind::sum;
      for (const TensorId term : made.graph.inputs(op)) {
        how.reads.push_back({.tensor = term});
        if (const auto at = own.find(made.graph.name(term)); at != own.end()) how.reads.back().views = at->second;
      }
      how.results.push_back({.position = 0, .parts = {{.tensor = *made.graph.outputs(op).begin()}}});
      const auto sum = original ? original : before.find(name.substr(0, name.rfind('/')));  // "SUM/own-1", "SUM/copy-1"
      how.results[0].like = recipe.ops[*sum].value;
      continue;
    }
    how = recipe.ops[*original];
    make_as_added(how, views, graph);
    for_each_tensor(how, [&](TensorId& tensor) { tensor = names.at(graph.name(tensor)); });
    const auto at = place.find(*original);
    if (at == place.end()) continue;
    for (auto* operands : {&how.reads, &how.gradients, &how.outputs})
      for (Operand& operand : *operands)
        if (const auto copy = copies.find({at->second, operand.held}); copy != copies.end())
          operand.held = copy->second;
  }
  return {std::move(made.graph), std::move(result), 0};
}

}  // namespace trainyard::detail
