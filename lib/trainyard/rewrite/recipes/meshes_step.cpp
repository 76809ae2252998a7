#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/recipes/batch_shares.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"
#include "trainyard/rewrite/stage_meshes.hpp"

namespace trainyard::detail {
namespace {

/// A stage, with ops that stand for other stages, and its rewrite.
struct Piece {
  Graph graph;
  Rewrite rewrite;
};

/// Recipe of one of the two rewrites of stages, into ranks or into replicas.
class PiecesRecipe {
 public:
  PiecesRecipe(const RewrittenStep& before, const Graph& made)
      : graph_(before.graph),
        from_(before.recipe),
        made_(made),
        names_(made),
        whole_(before.graph),
        ops_(before.graph),
        result_(before.recipe) {
    result_.ops.assign(made.op_count(), {});
  }

  TrainingRecipe run(const std::vector<Piece>& pieces) {
    std::size_t buckets = 0;
    for (const Piece& piece : pieces) {
      const auto* replicate = std::get_if<Replicate>(&piece.rewrite);
      const TrainingRecipe recipe = recipe_of(piece.graph, replicate ? replicate->replicas : 1);
      RewrittenStep step = replicate ? replicated_step(piece.graph, recipe, *replicate, buckets)
                                     : ranked_step(piece.graph, recipe, std::get<TensorParallel>(piece.rewrite));
      buckets += step.buckets;
      take(std::move(step));
    }
    for (const OpId op : made_.ops()) {
      if (const auto at = of_pieces_.find(made_.name(op)); at != of_pieces_.end()) {
        const RewrittenStep& step = *steps_[at->second.first];
        result_.ops[op] =
            recipe_of_copy(step.recipe.ops[at->second.second], step.graph, at->second.second, made_, op, names_);
      } else if (const auto original = ops_.find(made_.name(op))) {
        result_.ops[op] = recipe_of_copy(from_.ops[*original], graph_, *original, made_, op, names_);
      } else {
        result_.ops[op] = between(op);
      }
    }
    return std::move(result_);
  }

 private:
  /// The division of the graph's samples into this number of shares.
  BatchShares& shares(std::size_t samples) {
    auto& shares = shares_[samples];
    if (!shares) {
      shares = std::make_unique<BatchShares>(graph_, from_, result_, BatchAxes{.samples = samples});
      shares->find();
    }
    return *shares;
  }

  TrainingRecipe recipe_of(const Graph& piece, std::size_t samples) {
    TrainingRecipe recipe = from_;
    recipe.ops.assign(piece.op_count(), {});
    const TensorNames names{piece};
    for (const OpId op : piece.ops()) {
      OpRecipe& how = recipe.ops[op];
      if (const auto original = ops_.find(piece.name(op))) {
        how = from_.ops[*original];
        for_each_tensor(how, [&](TensorId& tensor) { tensor = names.at(graph_.name(tensor)); });
        continue;
      }
      how.kind = OpRecipe::Kind::rest;  // another stage makes it
      for (const TensorId tensor : piece.outputs(op)) {
        const TensorId made = whole_.at(piece.name(tensor));
        how.cut = shares(samples).cuts(made)[BatchAxes::kSamples];
        how.results.push_back({.position = 0, .parts = {{.tensor = tensor}}, .like = shares(1).value_of(made)});
      }
    }
    return recipe;
  }

  /// Adopts the piece's additions to the model, under new ids.
  void take(RewrittenStep step) {
    const std::size_t values = from_.model.values.size(), nodes = from_.model.nodes.size();
    const std::size_t more_values = result_.model.values.size() - values,
                      more_nodes = result_.model.nodes.size() - nodes;
    const auto value = [&](ValueId& id) {
      if (!id.is_none() && id.index() >= values) id = ValueId{id.index() + more_values};
    };
    const auto node = [&](NodeId& id) {
      if (!id.is_none() && id.index() >= nodes) id = NodeId{id.index() + more_nodes};
    };
    TrainingRecipe& recipe = step.recipe;
    for (std::size_t i = values; i < recipe.model.values.size(); ++i)
      result_.model.values.push_back(recipe.model.values[ValueId{i}]);
    for (std::size_t i = nodes; i < recipe.model.nodes.size(); ++i) {
      Node made = recipe.model.nodes[NodeId{i}];
      for (auto* side : {&made.inputs, &made.outputs})
        for (ValueId& id : *side) value(id);
      result_.model.nodes.push_back(std::move(made));
    }
    const auto operand = [&](Operand& of) {
      value(of.held);
      for (ViewStep& view : of.views) node(view.node);
    };
    for (OpRecipe& how : recipe.ops) {
      node(how.node);
      value(how.value);
      for (auto* list : {&how.reads, &how.outputs, &how.gradients}) std::ranges::for_each(*list, operand);
      std::ranges::for_each(how.slices, node);
      for (OpRecipe::Result& result : how.results) {
        value(result.like);
        std::ranges::for_each(result.parts, operand);
      }
      for (OpRecipe::Store& store : how.stores) value(store.parameter);
    }
    for (std::size_t i = from_.copies.size(); i < recipe.copies.size(); ++i) {
      value(recipe.copies[i].copy);
      result_.copies.push_back(recipe.copies[i]);
    }
    result_.own_statistics = result_.own_statistics || recipe.own_statistics;
    steps_.push_back(std::make_unique<RewrittenStep>(std::move(step)));
    const Graph& graph = steps_.back()->graph;
    for (const OpId op : graph.ops()) of_pieces_.emplace(graph.name(op), std::pair{steps_.size() - 1, op});
  }

  /// Recipe of an op between stages, which divides or joins a tensor by samples.
  OpRecipe between(OpId op) {
    const auto inputs = made_.inputs(op);
    const auto outputs = made_.outputs(op);
    OpRecipe how = collective_op(made_, op, {CollectiveKind::all_gather, std::nullopt, std::nullopt});
    const bool joins = inputs.size() > 1;
    const std::string_view name = made_.name(joins ? *outputs.begin() : inputs[0]);
    const TensorId tensor = whole_of(name.substr(0, name.rfind("/from-")));
    // The bytes of a part tell the number of parts of all samples.
    const TensorId part = joins ? inputs[0] : *outputs.begin();
    const auto parts =
        static_cast<std::size_t>(graph_.bytes(tensor).count / std::max<std::int64_t>(1, made_.bytes(part).count));
    const MaybeCut cut = shares(parts).cuts(tensor)[BatchAxes::kSamples];
    const ValueId like = shares(1).value_of(tensor);
    if (!cut || cut->blocks.size() != 1 || like.is_none())
      refuse("not-executed",
             fmt::format("'{}', which is sent between stages, is not divided by samples only", graph_.name(tensor)),
             "give both stages the same number of replicas");
    if (joins) {
      how.joined = cut;
      const std::size_t replicas = parts / inputs.size();
      BatchShares& after = shares(replicas);
      how.results[0].like = after.local().value(like, after.cuts(tensor));
    } else {
      how.cut = cut;
    }
    return how;
  }
  /// The tensor, in the graph before replication, that a replica's tensor copies.
  TensorId whole_of(std::string_view name) const {
    if (const auto found = whole_.find(name)) return *found;
    return whole_.at(name.substr(0, name.rfind('@')));
  }

  const Graph& graph_;
  const TrainingRecipe& from_;
  const Graph& made_;
  const TensorNames names_, whole_;  // of `made_`, of `graph_`
  const OpIndex ops_;                // of `graph_`
  TrainingRecipe result_;
  std::map<std::size_t, std::unique_ptr<BatchShares>> shares_;
  std::vector<std::unique_ptr<RewrittenStep>> steps_;
  std::map<std::string_view, std::pair<std::size_t, OpId>> of_pieces_;  // by name: the piece, and its op
};

}  // namespace

RewrittenStep meshes_step(const Graph& graph, const TrainingRecipe& recipe, const StageMeshes& meshes) {
  std::vector<Piece> ranks, replicas;
  StageMeshGraph made = stage_meshes(graph, meshes, [&](const Graph& piece, const Rewrite& rewrite) {
    (std::holds_alternative<Replicate>(rewrite) ? replicas : ranks).push_back({piece, rewrite});
  });
  RewrittenStep before{graph, recipe, 0};
  RewrittenStep divided{*made.ranks, PiecesRecipe{before, *made.ranks}.run(ranks), 0};
  TrainingRecipe result = PiecesRecipe{divided, made.graph}.run(replicas);
  return {std::move(made.graph), std::move(result), 0};
}

}  // namespace trainyard::detail
