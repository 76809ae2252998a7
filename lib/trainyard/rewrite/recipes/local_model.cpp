#include "trainyard/rewrite/recipes/local_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::detail {
namespace {

std::string key_of(const Cuts& cuts) {
  std::string key;
  for (const MaybeCut& cut : cuts)
    key += cut ? fmt::format("{}:{};", cut->dimension, fmt::join(cut->blocks, ",")) : ";";
  return key;
}

}  // namespace

bool any_cut(const Cuts& cuts) {
  return std::ranges::any_of(cuts, [](const MaybeCut& cut) { return cut.has_value(); });
}

ValueId LocalModel::value(ValueId id, const Cuts& cuts) {
  if (id.is_none() || !any_cut(cuts)) return id;
  const auto [at, added] = values_.try_emplace({id, key_of(cuts)}, ValueId{model_.values.size()});
  if (!added) return at->second;
  Value local = model_.values[id];
  for (std::size_t axis = 0; axis < cuts.size(); ++axis)
    if (cuts[axis]) {
      std::int64_t& extent = local.shape[cuts[axis]->dimension];
      if (extent % static_cast<std::int64_t>(parts_[axis]) != 0)
        refuse(
            "not-executed",
            fmt::format("'{}', {}, cannot be divided equally among {}", local.name, text_of(local.shape), parts_[axis]),
            kLargerBatch);
      extent /= static_cast<std::int64_t>(parts_[axis]);
    }
  local.role = Value::Role::activation;  // it only provides a shape
  local.contents_known = false;
  local.integers.clear();
  local.reals.clear();
  model_.values.push_back(std::move(local));
  return at->second;
}

NodeId LocalModel::node(NodeId id, const std::vector<Cuts>& inputs, const std::vector<Cuts>& outputs) {
  if (id.is_none() || (std::ranges::none_of(inputs, any_cut) && std::ranges::none_of(outputs, any_cut))) return id;
  std::string key;
  for (const auto* side : {&inputs, &outputs})
    for (const Cuts& cuts : *side) key += key_of(cuts) + '|';
  const auto [at, added] = nodes_.try_emplace({id, key}, NodeId{model_.nodes.size()});
  if (!added) return at->second;
  Node local = model_.nodes[id];
  const Node whole = local;
  for (std::size_t i = 0; i < inputs.size(); ++i) local.inputs[i] = value(local.inputs[i], inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) local.outputs[i] = value(local.outputs[i], outputs[i]);
  for (std::size_t axis = 0; axis < parts_.size(); ++axis) {
    const auto parts = static_cast<std::int64_t>(parts_[axis]);
    const bool in = !inputs.empty() && inputs[0][axis];
    if (whole.type == "Conv" && in && inputs[0][axis]->dimension == 1 && whole.integer("group", 1) > 1)
      local.attributes["group"] = local.integer("group", 1) / parts;
    if (whole.type != "Slice" || !in) continue;
    const std::size_t cut = inputs[0][axis]->dimension;
    const Shape& from = model_.values[whole.inputs[0]].shape;
    if (from[cut] == model_.values[whole.outputs[0]].shape[cut]) continue;
    // The slice of a part begins within that part.
    const auto numbers = [&](const char* word, std::size_t input) {
      if (local.has_attribute(word) || input >= whole.inputs.size() || whole.inputs[input].is_none())
        return local.integers(word);
      return model_.values[whole.inputs[input]].integers;
    };
    auto starts = numbers("starts", 1);
    const auto axes = numbers("axes", 3);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::size_t dimension = axes.empty() ? i : axis_at(axes[i], from.size());
      if (dimension == cut) starts[i] = (starts[i] < 0 ? starts[i] + from[cut] : starts[i]) / parts;
    }
    local.attributes["starts"] = std::move(starts);
  }
  const NodeId made = at->second = NodeId{model_.nodes.size()};
  model_.nodes.push_back(std::move(local));
  return made;
}

Cuts LocalModel::seen(const ViewStep& step, const Cuts& cuts) const {
  Cuts made(cuts.size());
  for (std::size_t axis = 0; axis < cuts.size(); ++axis)
    if (cuts[axis]) made[axis] = cut_after(model_, step, *cuts[axis], parts_[axis]);
  return made;
}

ViewStep LocalModel::step(const ViewStep& step, const Cuts& cuts) {
  if (!any_cut(cuts)) return step;
  const Node& node = model_.nodes[step.node];
  std::vector<Cuts> inputs(node.inputs.size(), whole()), outputs(node.outputs.size(), whole());
  using Kind = ViewStep::Kind;
  if (step.kind == Kind::output) {
    inputs[0] = cuts;
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = seen({Kind::output, step.node, i}, cuts);
  } else if (step.kind == Kind::undo) {
    outputs[0] = cuts;
    inputs[0] = seen(step, cuts);
  } else {
    outputs[0] = cuts;
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = seen({Kind::part, step.node, i}, cuts);
  }
  return {step.kind, this->node(step.node, inputs, outputs), step.index};
}

Cuts LocalModel::through(std::vector<ViewStep>& views, Cuts cuts) {
  for (ViewStep& view : views) {
    Cuts next = seen(view, cuts);
    view = step(view, cuts);
    cuts = std::move(next);
  }
  return cuts;
}

Cuts LocalModel::seen(const std::vector<ViewStep>& views, Cuts cuts) const {
  for (const ViewStep& view : views) cuts = seen(view, cuts);
  return cuts;
}

Cut LocalModel::within(const Cut& cut, const Cuts& cuts) const {
  Cut local = cut;
  for (std::size_t axis = 0; axis < cuts.size(); ++axis)
    if (cuts[axis] && cuts[axis]->dimension == cut.dimension)
      for (std::int64_t& block : local.blocks) {
        if (block % static_cast<std::int64_t>(parts_[axis]) != 0)
          refuse("not-executed",
                 fmt::format("a rank's share of {} cannot be divided again among {} replicas or microbatches",
                             counted(block, "row"), parts_[axis]),
                 kLargerBatch);
        block /= static_cast<std::int64_t>(parts_[axis]);
      }
  return local;
}

ValueId LocalModel::copy(ValueId of, const Cuts& cuts, const std::string& suffix) {
  Value own = model_.values[value(of, cuts)];
  own.role = model_.values[of].role;
  own.name += suffix;
  model_.values.push_back(std::move(own));
  return ValueId{model_.values.size() - 1};
}

ValueId value_after(const Model& model, const std::vector<ViewStep>& views, ValueId value) {
  if (views.empty()) return value;
  const ViewStep& last = views.back();
  const Node& node = model.nodes[last.node];
  if (last.kind == ViewStep::Kind::output) return node.outputs[last.index];
  return node.inputs[last.kind == ViewStep::Kind::part ? last.index : 0];
}

void add_part(std::vector<Part>& parts, Part part, bool outermost) {
  std::vector<Part*> within;
  for (Part& each : parts)
    if (each.cut && part.cut && each.cut->dimension == part.cut->dimension) within.push_back(&each);
  const auto of = static_cast<std::int64_t>(part.of);
  const bool alike = std::ranges::all_of(within, [&](const Part* each) {
    return each->cut->blocks.size() == part.cut->blocks.size() &&
           std::ranges::all_of(each->cut->blocks, [&](std::int64_t block) { return block % of == 0; });
  });
  if (!outermost || !alike) {
    parts.push_back(std::move(part));
    return;
  }
  for (Part* each : within) {
    for (std::int64_t& block : each->cut->blocks) block /= of;
    for (std::int64_t& block : part.cut->blocks) block *= static_cast<std::int64_t>(each->of);
  }
  parts.insert(parts.begin(), std::move(part));
}

void note_copy(TrainingRecipe& recipe, ValueId copy, ValueId of, const std::vector<Part>& parts, bool outermost) {
  HeldCopy noted{.copy = copy, .of = of};
  for (const HeldCopy& earlier : recipe.copies)
    if (earlier.copy == of) {
      noted = earlier;
      noted.copy = copy;
    }
  for (const Part& part : parts) add_part(noted.parts, part, outermost);
  recipe.copies.push_back(std::move(noted));
}

}  // namespace trainyard::detail
