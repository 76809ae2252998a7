#include "trainyard/rewrite/recipes/batch_shares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string>

#include "trainyard/core/error.hpp"

namespace trainyard::detail {
namespace {

constexpr std::size_t kDivided = 2;  // axes that divide inputs: samples and rows

}  // namespace

BatchShares::BatchShares(const Graph& graph, const TrainingRecipe& recipe, TrainingRecipe& result,
                         const BatchAxes& axes)
    : is_attention(graph.op_count(), false),
      graph_(graph),
      from_(recipe),
      to_(result),
      local_(result.model, {axes.samples, axes.rows, axes.rows, axes.groups, axes.experts}),
      outermost_(axes.outermost),
      tensor_(graph.tensor_count(), local_.whole()),
      like_(graph.tensor_count(), ValueId::none()),
      value_(recipe.model.values.size(), local_.whole()) {}

void BatchShares::find() {
  for (const OpId op : graph_.ops())
    if (const OpRecipe& how = from_.ops[op]; how.kind == OpRecipe::Kind::input) {
      const Shape& shape = whole_shape(how.value);
      if (!shape.empty()) samples_ = shape.front();
      break;
    }
  for (const OpId op : graph_.topological_order()) find(op);
}

Cuts BatchShares::cuts_of(const Operand& operand) const {
  if (operand.tensor.is_none() || !operand.held.is_none()) return local_.whole();
  Cuts cuts = local_.seen(operand.views, tensor_[operand.tensor]);
  for (const Part& part : operand.parts) cuts = part_of_cuts(std::move(cuts), part);
  return cuts;
}

Cuts BatchShares::part_of_cuts(Cuts cuts, const Part& part) const {
  if (!part.cut) return cuts;
  for (MaybeCut& cut : cuts) {
    if (!cut || cut->dimension != part.cut->dimension) continue;
    std::vector<std::int64_t>& blocks = cut->blocks;
    if (blocks.size() % part.of == 0) {
      const std::size_t each = blocks.size() / part.of;
      blocks.erase(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(part.index * each));
      blocks.resize(each);
    } else {
      for (std::int64_t& block : blocks) block /= static_cast<std::int64_t>(part.of);
    }
  }
  return cuts;
}

void BatchShares::note(ValueId value, const Cuts& cuts) {
  if (!value.is_none()) value_[value] = cuts;
}

Cuts BatchShares::note_views(const std::vector<ViewStep>& views, Cuts cuts) {
  for (const ViewStep& view : views) {
    const Node& of = from_.model.nodes[view.node];
    const bool shows = view.kind == ViewStep::Kind::output;
    if (shows) note(of.inputs[0], cuts);
    cuts = local_.seen(view, cuts);
    if (shows) note(of.outputs[view.index], cuts);
  }
  return cuts;
}

void BatchShares::note_viewed(ValueId value, ValueId view, const Operand& gradient) {
  if (any_cut(value_[value])) return;
  const Shape &whole = from_.model.values[value].shape, &part = from_.model.values[view].shape;
  Cuts cuts = cuts_of(gradient);
  for (MaybeCut& cut : cuts)
    if (cut && (whole.size() != part.size() || whole[cut->dimension] != part[cut->dimension])) cut.reset();
  note(value, cuts);
}

void BatchShares::make(const OpRecipe::Result& result, const Cuts& cuts, ValueId value) {
  for (const Operand& part : result.parts) {
    tensor_[part.tensor] = note_views(part.views, cuts);
    like_[part.tensor] = value.is_none() ? value : value_after(from_.model, part.views, value);
  }
}

bool BatchShares::is_loss(const OpRecipe& how) const {
  if (how.kind != OpRecipe::Kind::forward || from_.loss.is_none()) return false;
  return how.loss_share || from_.model.nodes[how.node].outputs[0] == from_.loss;
}

void BatchShares::find_forward(OpId op) {
  const OpRecipe& how = from_.ops[op];
  const Model& model = from_.model;
  const Node& node = model.nodes[how.node];
  std::vector<Cuts> inputs;
  for (std::size_t i = 0; i < how.reads.size(); ++i) {
    inputs.push_back(cuts_of(how.reads[i]));
    note_views(how.reads[i].views, how.reads[i].tensor.is_none() ? local_.whole() : tensor_[how.reads[i].tensor]);
    if (i < node.inputs.size() && any_cut(inputs.back())) note(node.inputs[i], inputs.back());
  }
  auto& rules = nodes_[how.node];
  rules.clear();
  std::vector<Cuts> outputs(node.outputs.size(), local_.whole());
  for (std::size_t axis = 0; axis < kDivided; ++axis) {
    std::vector<MaybeCut> cut;
    for (const Cuts& each : inputs) cut.push_back(each[axis]);
    if (axis == BatchAxes::kRows && is_attention[op]) {
      CutNode rows{std::move(cut), std::vector<MaybeCut>(node.outputs.size()), false};
      rows.outputs[0] = even_cut(model.values[node.outputs[0]].shape, 2, local_.parts()[axis]);
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (!node.inputs[i].is_none() &&
            (i > 2 || rows.inputs[i] != even_cut(model.values[node.inputs[i]].shape, 2, local_.parts()[axis])))
          refuse("not-executed",
                 fmt::format("the attention '{}' has operands besides queries, keys and values divided by row",
                             graph_.name(op)),
                 "set context to 1");
      rules.push_back(std::move(rows));
      outputs[0][axis] = rules.back().outputs[0];
      continue;
    }
    rules.push_back(cut_node(model, node, std::move(cut), local_.parts()[axis]));
    if (rules.back().partial && !is_loss(how))
      refuse("not-executed",
             fmt::format("'{}' ({}) sums over the dimension that replicas or microbatches divide", graph_.name(op),
                         node.type),
             kPredicted);
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i][axis] = rules.back().outputs[i];
  }
  if (!inputs.empty() && any_cut(inputs[0]) && has_statistics_of_batch(model, node)) to_.own_statistics = true;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) note(node.outputs[i], outputs[i]);
  for (const OpRecipe::Result& result : how.results)
    make(result, outputs[result.position], node.outputs[result.position]);
}

/// The input as it was before all rewrites.
ValueId BatchShares::whole_input(ValueId input) const {
  for (const HeldCopy& copy : from_.copies)
    if (copy.copy == input) return copy.of;
  return input;
}
const Shape& BatchShares::whole_shape(ValueId input) const { return from_.model.values[whole_input(input)].shape; }

bool BatchShares::has_layers_first(ValueId input) const {
  const auto nodes = from_.model.nodes.ids();
  return whole_shape(input).size() > 2 && std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
           const Node& node = from_.model.nodes[id];
           const auto position = std::ranges::find(node.inputs, whole_input(input)) - node.inputs.begin();
           if (node.type == "LSTM" || node.type == "GRU" || node.type == "RNN")
             return (position == 5 || position == 6) && node.integer("layout", 0) == 0;
           return node.type == "Gather" && position == 0 && node.integer("axis", 0) == 0;
         });
}

bool BatchShares::is_for_all(ValueId input) const {
  const Shape& shape = whole_shape(input);
  return samples_ > 1 && !shape.empty() && shape.front() == 1 && !has_layers_first(input);
}

std::size_t BatchShares::dimension_of(ValueId input, std::size_t axis) const {
  if (axis > 0) return axis;
  const Shape& shape = whole_shape(input);
  const auto at = std::find(shape.begin() + (has_layers_first(input) ? 1 : 0), shape.end(), samples_);
  return at == shape.end() ? 0 : static_cast<std::size_t>(at - shape.begin());
}

void BatchShares::find_input(const OpRecipe& how) {
  Cuts cuts = local_.whole();
  const Value& value = from_.model.values[how.value];
  for (std::size_t axis = 0; axis < kDivided; ++axis) {
    if (local_.parts()[axis] == 1 || (axis == BatchAxes::kSamples && is_for_all(how.value))) continue;
    cuts[axis] = even_cut(value.shape, dimension_of(how.value, axis), local_.parts()[axis]);
    if (!cuts[axis])
      refuse("not-executed",
             fmt::format("the {} of the input '{}', {}, cannot be divided equally among {}",
                         axis == 0 ? "samples" : "rows", value.name, text_of(value.shape), local_.parts()[axis]),
             "take a number of replicas and microbatches that divides them");
  }
  note(how.value, cuts);
  make(how.results[0], cuts, how.value);
}

void BatchShares::find_backward(OpId op) {
  const OpRecipe& how = from_.ops[op];
  const std::vector<Cuts> inputs = side(how.node, false);
  const auto is_cut = [&](const Operand& read) { return any_cut(cuts_of(read)); };
  if (!nodes_.contains(how.node) && std::ranges::any_of(how.gradients, is_cut))
    refuse("not-executed", fmt::format("'{}' is not the gradient of an op of the forward pass", graph_.name(op)), "");
  for (const OpRecipe::Result& result : how.results) {
    const ValueId of = from_.model.nodes[how.node].inputs[result.position];
    if (any_cut(inputs[result.position]) && !how.reads[result.position].held.is_none())
      refuse("not-executed",
             fmt::format("'{}' makes the gradient of '{}', of which each replica uses only its own rows",
                         graph_.name(op), from_.model.values[of].name),
             "set context to 1");
    make(result, inputs[result.position], of);
  }
}

Cuts BatchShares::joined_cuts(const OpRecipe& how) const {
  Cuts cuts = cuts_of(how.reads[0]);
  for (MaybeCut& cut : cuts) {
    if (!how.joined || !cut || cut->dimension != how.joined->dimension) continue;
    const std::vector<std::int64_t> one = cut->blocks;  // each read has its own blocks
    for (std::int64_t& block : cut->blocks) block *= how.apart ? 1 : static_cast<std::int64_t>(how.reads.size());
    for (std::size_t i = 1; how.apart && i < how.reads.size(); ++i)
      cut->blocks.insert(cut->blocks.end(), one.begin(), one.end());
  }
  return cuts;
}

/// Parts of an array have its cuts, in any order. Only a result that is whole again names its value.
void BatchShares::find_combination(OpId op) {
  const OpRecipe& how = from_.ops[op];
  const bool adds = how.kind == OpRecipe::Kind::sum;
  Cuts cuts = how.reads.empty() ? local_.whole() : joined_cuts(how);
  ValueId value = ValueId::none();
  if (adds && !how.reads.empty() && how.reads[0].parts.empty() && how.reads[0].views.empty() &&
      !how.reads[0].tensor.is_none())
    value = like_[how.reads[0].tensor];
  for (const Operand& read : how.reads) {
    if (cuts_of(read) == cuts_of(how.reads[0])) continue;
    if (adds || how.joined)
      refuse("not-executed", fmt::format("'{}' combines tensors that are divided differently", graph_.name(op)), "");
    cuts = local_.whole();
    if (any_cut(cuts_of(read)))
      refuse("not-executed", fmt::format("'{}' combines divided tensors with whole ones", graph_.name(op)), "");
  }
  std::size_t number = how.first;
  for (const OpRecipe::Result& result : how.results) {
    const Part part{how.cut, number++, how.of > 0 ? how.of : how.results.size()};
    const Cuts made = how.cut ? part_of_cuts(cuts, part) : cuts;
    make(result, made, result.like.is_none() ? value : result.like);
    if (!result.like.is_none()) note(result.like, made);
  }
}

void BatchShares::find(OpId op) {
  using Kind = OpRecipe::Kind;
  const OpRecipe& how = from_.ops[op];
  const Model& model = from_.model;
  switch (how.kind) {
    case Kind::input:
      return find_input(how);
    case Kind::forward:
      return find_forward(op);
    case Kind::backward:
      return find_backward(op);
    case Kind::add_gradients: {
      const Cuts cuts = cuts_of(how.reads[0]);
      if (cuts != cuts_of(how.reads.back()))
        refuse("not-executed", fmt::format("'{}' adds gradients that are divided differently", graph_.name(op)), "");
      note(how.value, cuts);  // no forward op makes the value on ranks that divide only its gradient by rows
      return make(how.results[0], cuts, how.value);
    }
    case Kind::slice_gradient:
      note_viewed(how.value, model.nodes[how.slices[0]].outputs[0], how.reads[0]);
      return make(how.results[0], value_[how.value], how.value);
    case Kind::view_gradient: {
      const Node& node = model.nodes[how.node];
      for (std::size_t i = 0; node.type == "Split" && i < how.reads.size(); ++i)
        if (!how.reads[i].is_none()) note_viewed(node.inputs[0], node.outputs[i], how.reads[i]);
      return make(how.results[0], value_[node.inputs[0]], node.inputs[0]);
    }
    case Kind::squares:
    case Kind::clip:
      return make(how.results[0], local_.whole(), how.results[0].like);
    case Kind::update:
      return;
    case Kind::rest:
      if (!how.results.empty()) {  // another stage makes it, with this cut
        Cuts cuts = local_.whole();
        cuts[BatchAxes::kSamples] = how.cut;
        make(how.results[0], cuts, how.results[0].like);
      }
      return;
    case Kind::relay: {
      const TensorId from = graph_.inputs(op)[0], to = *graph_.outputs(op).begin();
      tensor_[to] = tensor_[from];
      like_[to] = like_[from];
      return;
    }
    case Kind::sum:
    case Kind::join:
      return find_combination(op);
  }
}

std::vector<Cuts> BatchShares::side(NodeId node, bool outputs) const {
  const Node& of = from_.model.nodes[node];
  std::vector<Cuts> made(outputs ? of.outputs.size() : of.inputs.size(), local_.whole());
  const auto rules = nodes_.find(node);
  if (rules == nodes_.end()) return made;
  for (std::size_t axis = 0; axis < rules->second.size(); ++axis) {
    const auto& from = outputs ? rules->second[axis].outputs : rules->second[axis].inputs;
    for (std::size_t i = 0; i < made.size(); ++i) made[i][axis] = from[i];
  }
  return made;
}

double BatchShares::part_of_loss(const OpRecipe& how) const {
  const Node& node = from_.model.nodes[how.node];
  const auto rules = nodes_.find(how.node);
  double part = 1;
  for (std::size_t axis = 0; rules != nodes_.end() && axis < rules->second.size(); ++axis)
    if (rules->second[axis].partial) part /= static_cast<double>(local_.parts()[axis]);
  const std::string reduction = node.text("reduction", "mean");
  if (part == 1 || reduction == "sum") return 1;
  if (reduction != "mean" || (node.type == "SoftmaxCrossEntropyLoss" && node.inputs.size() > 2))
    refuse("not-executed", fmt::format("the loss '{}' is not a mean over equally weighted samples", node.name),
           "take a loss without weights, with reduction mean or sum");
  return part;
}

std::vector<Part> BatchShares::parts_by(const BatchIndex& index, const Cuts& cuts, const Cuts& has) const {
  std::vector<Part> parts;
  for (std::size_t axis = 0; axis < cuts.size(); ++axis)
    if (cuts[axis] && cuts[axis] != has[axis]) parts.push_back({cuts[axis], index[axis], local_.parts()[axis]});
  return parts;
}

ValueId BatchShares::input_share(ValueId input, const BatchIndex& index) {
  const Cuts& cuts = value_[input];
  if (!any_cut(cuts)) return input;
  const auto [at, added] = inputs_.try_emplace({input, index}, ValueId::none());
  if (added) {
    at->second = local_.copy(input, cuts, "");
    note_copy(to_, at->second, input, parts_by(index, cuts, local_.whole()), outermost_);
  }
  return at->second;
}

/// Tensor ranks divide the rows of a replica that shares a sequence. Replicas divide the samples of a microbatch.
std::shared_ptr<const Drawn> BatchShares::drawn_share(const OpRecipe& how, const Cuts& output,
                                                      const BatchIndex& index) const {
  const Drawn whole{how.node, from_.model.nodes[how.node].outputs[0], {}};
  auto drawn = std::make_shared<Drawn>(how.drawn ? *how.drawn : whole);
  for (std::size_t axis = 0; axis < output.size(); ++axis) {
    Cuts along = local_.whole();
    along[axis] = output[axis];
    for (Part& part : parts_by(index, along, local_.whole()))
      add_part(drawn->parts, std::move(part), outermost_ || axis == BatchAxes::kRows);
  }
  return drawn;
}

OpRecipe BatchShares::share(OpId op, const BatchIndex& index, const Names& names) {
  using Kind = OpRecipe::Kind;
  OpRecipe how = from_.ops[op];
  const Model& model = from_.model;
  const auto form = [&](const Cuts& cuts, ValueId like) { return names.form ? names.form(cuts, like) : cuts; };
  const auto form_of = [&](ValueId value) { return form(value_[value], value); };
  const auto held_form = [&](ValueId value) { return names.held_form ? names.held_form(value) : local_.whole(); };
  // Renames what the operand reads, and returns its cuts.
  const auto operand = [&](Operand& of) {
    Cuts cuts = local_.whole();
    if (of.is_none()) return cuts;
    if (!of.tensor.is_none()) {
      if (of.held.is_none()) cuts = form(tensor_[of.tensor], like_[of.tensor]);
      of.tensor = names.tensor(of.tensor);
    }
    if (!of.held.is_none()) {
      cuts = held_form(of.held);
      of.held = names.held(of.held);
    }
    cuts = local_.through(of.views, std::move(cuts));
    for (Part& part : of.parts)
      if (part.cut) part.cut = local_.within(*part.cut, cuts);
    return cuts;
  };
  if (is_loss(how)) how.loss_share = how.loss_share.value_or(1) * part_of_loss(how);
  if (how.kind == Kind::backward && std::ranges::all_of(how.gradients, &Operand::is_none))
    how.seed *= part_of_loss(how);
  const bool has_node = how.kind == Kind::forward || how.kind == Kind::backward;
  std::vector<Cuts> inputs, outputs;
  if (has_node) {
    const Node& node = model.nodes[how.node];
    inputs = side(how.node, false);
    outputs = side(how.node, true);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!node.inputs[i].is_none()) inputs[i] = form(inputs[i], node.inputs[i]);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (!node.outputs[i].is_none()) outputs[i] = form(outputs[i], node.outputs[i]);
  }
  Cuts first = local_.whole();
  for (std::size_t i = 0; i < how.reads.size(); ++i) {
    const bool held = !how.reads[i].held.is_none();
    const Cuts cuts = operand(how.reads[i]);
    if (i == 0) first = cuts;
    if (held && has_node)
      for (Part& part : parts_by(index, inputs[i], cuts)) how.reads[i].parts.push_back(std::move(part));
  }
  for (auto* list : {&how.gradients, &how.outputs})
    for (Operand& each : *list) static_cast<void>(operand(each));
  for (TensorId& extra : how.extras) extra = names.tensor(extra);
  for (MaybeCut* cut : {&how.joined, &how.cut})
    if (*cut) *cut = local_.within(**cut, first);
  for (OpRecipe::Result& result : how.results) {
    Cuts cuts = local_.whole();
    if (has_node)
      cuts = how.kind == Kind::forward ? outputs[result.position] : inputs[result.position];
    else if (how.kind == Kind::view_gradient)
      cuts = form_of(model.nodes[how.node].inputs[0]);
    else if (!how.value.is_none())
      cuts = form_of(how.value);
    if (!result.like.is_none()) cuts = form_of(result.like);
    result.like = local_.value(result.like, cuts);
    for (Operand& part : result.parts) {
      part.tensor = names.tensor(part.tensor);
      static_cast<void>(local_.through(part.views, cuts));
    }
  }
  for (NodeId& slice : how.slices)
    slice = local_.step({ViewStep::Kind::output, slice, 0}, form_of(model.nodes[slice].inputs[0])).node;
  if (how.kind == Kind::input) {
    how.value = input_share(how.value, index);
  } else if (how.kind == Kind::update || how.kind == Kind::squares) {
    how.value = names.held(how.value);
  } else if (how.kind == Kind::view_gradient) {
    how.node = local_.step({ViewStep::Kind::output, how.node, 0}, form_of(model.nodes[how.node].inputs[0])).node;
  } else if (!how.value.is_none()) {
    how.value = local_.value(how.value, form_of(how.value));
  }
  if (how.kind == Kind::forward && model.nodes[how.node].type == "Dropout" && any_cut(outputs[0]))
    how.drawn = drawn_share(how, outputs[0], index);
  if (has_node) how.node = local_.node(how.node, inputs, outputs);
  for (OpRecipe::Store& store : how.stores) store.parameter = names.held(store.parameter);
  return how;
}

TensorNames::TensorNames(const Graph& graph) {
  for (const TensorId tensor : graph.tensors()) ids_.emplace(graph.name(tensor), tensor);
}
std::optional<TensorId> TensorNames::find(std::string_view name) const {
  const auto at = ids_.find(name);
  return at == ids_.end() ? std::nullopt : std::optional{at->second};
}
TensorId TensorNames::at(std::string_view name) const {
  const auto found = find(name);
  assert(found);
  return *found;
}

}  // namespace trainyard::detail
