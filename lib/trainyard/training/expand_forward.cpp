#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/model/forward_cost.hpp"
#include "trainyard/model/op_kind.hpp"
#include "trainyard/training/expansion.hpp"

namespace trainyard::detail {
namespace {

std::string shape_text(const Value& value) {
  std::string text{name_of(value.type)};
  text += '[';
  for (std::size_t i = 0; i < value.shape.size(); ++i) text += (i ? "," : "") + std::to_string(value.shape[i]);
  return text + ']';
}

/// Refuses models so large that a sum of sizes could overflow: an op's traffic is a few times the bytes of its values.
void check_sizes(const Model& model) {
  double total = 0;
  for (const Value& value : model.values)
    if (value.shape_known) total += static_cast<double>(byte_count(value).count);
  if (total > 0x1p56)
    refuse("too-large", "the arrays of '" + model.name + "' take more than 2^56 bytes",
           "check the sizes that its dimensions are bound to");
}

/// Bytes of the tensors that forward ops make and backward ops read.
Bytes saved_bytes(const Graph& graph) {
  Bytes sum;
  for (const TensorId tensor : graph.tensors()) {
    const OpId producer = graph.producer(tensor);
    if (graph.phase(producer) != Phase::forward || graph.type(producer) == "Input") continue;
    const auto readers = graph.consumers(tensor);
    if (std::any_of(readers.begin(), readers.end(), [&](OpId op) { return graph.phase(op) == Phase::backward; }))
      sum += graph.bytes(tensor);
  }
  return sum;
}

}  // namespace

TrainingStep Expansion::run() {
  check_sizes(model_);
  if (trains_) add_loss_node();
  if (trains_ && options_.clip_norm > 0) {
    scalar_ = ValueId{model_.values.size()};
    model_.values.push_back({.name = free_name("squares"), .shape = {}, .shape_known = true});
  }
  index_values();
  find_differentiated();
  add_inputs();
  for (const NodeId node : model_.nodes.ids()) add_forward(node);
  if (trains_) {
    if (!needs_gradient_[model_.nodes[seed_].outputs[0]])
      refuse("nothing-to-train", "no parameter of '" + model_.name + "' reaches its first output",
             "expand it without training (--training none, Optimizer::none), or name its parameters");
    for (std::size_t i = model_.nodes.size(); i-- > 0;) add_backward(NodeId{i});
    add_updates();
  }
  summary_.parameters = model_.parameter_count();
  auto [graph, declared] = std::move(draft_).build(model_.name);
  summary_.saved_bytes = saved_bytes(graph);
  TrainingRecipe recipe = finish_recipe(graph, declared);
  return {std::move(graph), summary_, std::move(recipe)};
}

void Expansion::add_loss_node() {
  if (model_.outputs.empty())
    refuse("no-output", "the model '" + model_.name + "' has no output",
           "add an output: a training step computes the loss from it");
  const ValueId output = model_.outputs.front();
  const Value logits = value(output);
  if (element_count(logits) == 1) {
    const ValueId root = storage_roots(model_)[output];
    for (const NodeId node : model_.nodes.ids())
      if (const auto& outputs = model_.nodes[node].outputs; !outputs.empty() && outputs[0] == root) seed_ = node;
    if (!seed_.is_none()) return;
  }
  Shape rows = logits.shape;
  if (!rows.empty()) rows.erase(rows.size() == 4 ? rows.begin() + 1 : rows.end() - 1);
  const ValueId labels{model_.values.size()}, loss{model_.values.size() + 1};
  model_.values.push_back({.name = free_name("labels"),
                           .type = DataType::int64,
                           .shape = rows,
                           .shape_known = true,
                           .role = Value::Role::input});
  model_.values.push_back({.name = free_name("loss"), .shape = {}, .shape_known = true});
  model_.inputs.push_back(labels);
  seed_ = NodeId{model_.nodes.size()};
  model_.nodes.push_back(
      {.name = "loss", .type = "SoftmaxCrossEntropy", .inputs = {output, labels}, .outputs = {loss}, .layer = "loss"});
}

std::string Expansion::free_name(std::string name) const {
  const auto taken = [&](const Value& v) { return v.name == name; };
  while (std::any_of(model_.values.begin(), model_.values.end(), taken)) name += '_';
  return name;
}

void Expansion::index_values() {
  const std::size_t values = model_.values.size();
  roots_ = storage_roots(model_);
  producer_.assign(values, NodeId::none());
  first_reader_.assign(values, NodeId::none());
  tensor_.assign(values, kNone);
  gradient_.assign(values, {});
  views_.assign(values, {});
  pending_.assign(values, {});
  maker_.assign(values, kNone);
  held_.assign(values, false);
  read_.assign(values, false);
  op_.assign(model_.nodes.size(), kNone);
  for (const ValueId output : model_.outputs) read_[output] = true;
  for (const NodeId id : model_.nodes.ids()) {
    const Node& node = model_.nodes[id];
    for (const ValueId output : node.outputs)
      if (!output.is_none()) producer_[output] = id;
    for (const ValueId input : node.inputs) {
      if (input.is_none()) continue;
      read_[input] = true;
      if (NodeId& first = first_reader_[roots_[input]]; first.is_none() && !is_view(model_, node)) first = id;
    }
  }
}

void Expansion::find_differentiated() {
  needs_gradient_.assign(model_.values.size(), false);
  on_tape_.assign(model_.nodes.size(), false);
  for (const ValueId id : model_.values.ids())
    needs_gradient_[id] = value(id).role == Value::Role::parameter && is_floating_point(value(id).type);
  for (const NodeId id : model_.nodes.ids()) {
    const Node& node = model_.nodes[id];
    if (!is_differentiable(node.type) || !reads_differentiated(node)) continue;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      const bool statistics = i > 0 && node.type.ends_with("Normalization");
      if (output.is_none() || statistics || !is_floating_point(value(output).type)) continue;
      needs_gradient_[output] = true;
      on_tape_[id] = true;
    }
  }
}

bool Expansion::reads_differentiated(const Node& node) const {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId input) { return !input.is_none() && needs_gradient_[input]; });
}

void Expansion::add_inputs() {
  for (const ValueId input : model_.inputs) {
    const auto op = draft_.add_op(
        {.name = value(input).name, .type = "Input", .times = {{"gpu", Nanoseconds{0}}, {"cpu", Nanoseconds{0}}}}, {});
    tensor_[input] = draft_.add_output(op, value(input).name, byte_count(value(input)));
    OpRecipe& how = recipe(op, OpRecipe::Kind::input);
    how.value = input;
    how.results.push_back(result(tensor_[input]));
    ++summary_.input_ops;
  }
}

void Expansion::add_forward(NodeId id) {
  const Node& node = model_.nodes[id];
  if (node.outputs.empty() || node.outputs[0].is_none() || node.type == "Constant") return;
  if (const ViewKind kind = view_kind(model_, node); kind != ViewKind::none) return add_view(id, kind);
  if (value(node.outputs[0]).role == Value::Role::constant) return;

  const ForwardCost cost = forward_cost(model_, node, options_.dropout_mask_bytes);
  std::vector<Tensor> inputs;
  for (const ValueId input : node.inputs)
    if (!input.is_none()) inputs.push_back(tensor_[input]);
  const auto op = draft_.add_op({.name = name_of_op(node),
                                 .type = node.type,
                                 .layer = node.layer,
                                 .signature = signature(node.type, node.inputs, {node.outputs[0]}),
                                 .flops = cost.flops,
                                 .bytes_accessed = cost.bytes},
                                inputs);
  op_[id] = op;
  hold_parameters(op, node);
  OpRecipe& how = recipe(op, OpRecipe::Kind::forward);
  how.node = id;
  for (const ValueId input : node.inputs) how.reads.push_back(operand(input));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    if (output.is_none() || (i > 0 && !read_[output])) continue;  // running statistics and masks that no op reads
    tensor_[output] = draft_.add_output(op, value(output).name, byte_count(value(output)));
    maker_[output] = op;
    how.results.push_back(result(tensor_[output], i));
  }
  summary_.forward_flops += cost.flops;
  summary_.forward_matmul_flops += cost.matmul_flops;
  ++summary_.forward_ops;
}

void Expansion::add_view(NodeId id, ViewKind kind) {
  const Node& node = model_.nodes[id];
  const Tensor whole = tensor_[node.inputs[0]];
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    if (output.is_none()) continue;
    std::vector<ViewStep> views = views_[node.inputs[0]];
    views.push_back({ViewStep::Kind::output, id, i});
    if (whole == kNone || kind != ViewKind::slice) {
      tensor_[output] = whole;
      views_[output] = std::move(views);
      continue;
    }
    tensor_[output] = draft_.add_slice(whole, value(output).name, byte_count(value(output)));
    note_slice(tensor_[output], whole, std::move(views));
  }
}

void Expansion::hold_parameters(DraftGraph::Index op, const Node& node) {
  for (const ValueId input : node.inputs) {
    if (input.is_none()) continue;
    const ValueId root = roots_[input];
    const Value::Role role = value(root).role;
    if (role != Value::Role::parameter && role != Value::Role::buffer) continue;
    touch(op, root);
    if (held_[root]) continue;
    held_[root] = true;
    const Bytes bytes = byte_count(value(root));
    Bytes state = bytes;  // a buffer
    if (role == Value::Role::parameter) {
      draft_.op(op).parameter_bytes += bytes;
      summary_.parameter_bytes += bytes;
      state =
          trains_ && needs_gradient_[root]
              ? update_cost(options_.optimizer, element_count(value(root)), bytes_per_element(value(root).type)).state
              : Bytes{0};
    }
    draft_.op(op).state_bytes += state;
    summary_.state_bytes += state;
  }
}

void Expansion::touch(DraftGraph::Index op, ValueId of) {
  const ValueId root = roots_[of];
  if (value(root).role == Value::Role::parameter) draft_.join_thing(op, root.index(), value(root).name);
}

std::string Expansion::signature(const std::string& type, const std::vector<ValueId>& reads,
                                 const std::vector<ValueId>& writes) const {
  std::string text = type + '(';
  for (const ValueId read : reads)
    if (!read.is_none()) text += (text.back() == '(' ? "" : ",") + shape_text(value(read));
  text += ")->";
  for (std::size_t i = 0; i < writes.size(); ++i) text += (i ? "," : "") + shape_text(value(writes[i]));
  return text;
}

}  // namespace trainyard::detail
