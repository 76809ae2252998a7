#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/model/op_kind.hpp"
#include "trainyard/training/expansion.hpp"

namespace trainyard::detail {
namespace {

/// The pieces merged into one kernel that reads and writes each tensor once.
GradientPiece merged(const BackwardRule& rule) {
  GradientPiece all{.type = rule.type, .suffix = "grad"};
  const auto append = [](auto& to, const auto& from) {
    for (const auto& each : from)
      if (std::find(to.begin(), to.end(), each) == to.end()) to.push_back(each);
  };
  for (const GradientPiece& piece : rule.pieces) {
    all.flops += piece.flops;
    all.matmul_flops += piece.matmul_flops;
    all.more_bytes += piece.more_bytes;
    append(all.reads, piece.reads);
    append(all.holds, piece.holds);
    append(all.extras, piece.extras);
    append(all.gradients, piece.gradients);
  }
  return all;
}

}  // namespace

DraftGraph::Index Expansion::add_backward_op(std::string name, const std::string& type, std::string layer, double flops,
                                             std::int64_t bytes, std::string signature_text,
                                             const std::vector<Tensor>& inputs) {
  const auto op = draft_.add_op({.name = std::move(name),
                                 .type = type,
                                 .phase = Phase::backward,
                                 .layer = std::move(layer),
                                 .signature = std::move(signature_text),
                                 .flops = Flops{flops},
                                 .bytes_accessed = Bytes{bytes}},
                                inputs);
  summary_.backward_flops += Flops{flops};
  ++summary_.backward_ops;
  return op;
}

void Expansion::contribute(ValueId id, Seen part) {
  Seen& sum = gradient_[id];
  if (sum.tensor == kNone) {
    sum = std::move(part);
    return;
  }
  const Bytes bytes = byte_count(value(id));
  const auto op = add_backward_op(value(id).name + "/add_grad", "AddGrad", layer_of(id),
                                  static_cast<double>(element_count(value(id))), 3 * bytes.count,
                                  signature("AddGrad", {id, id}, {id}), {sum.tensor, part.tensor});
  OpRecipe& how = recipe(op, OpRecipe::Kind::add_gradients);
  how.value = id;
  how.reads = {operand(sum), operand(part)};
  sum = {draft_.add_output(op, value(id).name + ".grad", bytes)};
  how.results = {result(sum.tensor)};
  touch(op, id);
  follow(op, id);
  ++summary_.gradient_adds;
}

const std::string& Expansion::layer_of(ValueId id) const {
  static const std::string kUnknown;
  const NodeId node = producer_[id].is_none() ? first_reader_[roots_[id]] : producer_[id];
  return node.is_none() ? kUnknown : model_.nodes[node].layer;
}

void Expansion::follow(DraftGraph::Index backward, ValueId of) {
  if (const auto maker = maker_[roots_[of]]; options_.colocate_gradients && maker != kNone)
    draft_.join_ops(backward, maker);
}

Expansion::Seen Expansion::finished_gradient(ValueId id) {
  if (!pending_[id].empty()) {
    const auto parts = std::move(pending_[id]);
    pending_[id].clear();
    contribute(id, {add_slice_gradient(id, parts)});
  }
  return gradient_[id];
}

DraftGraph::Index Expansion::add_slice_gradient(ValueId whole, const std::vector<SlicePart>& parts) {
  std::vector<Tensor> inputs;
  std::vector<ValueId> slices;
  std::int64_t bytes = byte_count(value(whole)).count;
  for (const SlicePart& part : parts) {
    inputs.push_back(part.gradient.tensor);
    slices.push_back(part.slice);
    bytes += 2 * byte_count(value(part.slice)).count;
  }
  const Node& node = model_.nodes[parts.back().node];  // the first in forward order
  const auto op = add_backward_op(name_of_op(node) + "/grad", "SliceGrad", node.layer, 0, bytes,
                                  signature("SliceGrad", slices, {whole}), inputs);
  touch(op, whole);
  follow(op, whole);
  const Tensor made = draft_.add_output(op, value(whole).name + ".grad", byte_count(value(whole)));
  OpRecipe& how = recipe(op, OpRecipe::Kind::slice_gradient);
  how.value = whole;
  for (const SlicePart& part : parts) {
    how.reads.push_back(operand(part.gradient));
    how.slices.push_back(part.node);
  }
  how.results = {result(made)};
  return made;
}

void Expansion::add_backward(NodeId id) {
  if (!on_tape_[id]) return;
  const Node& node = model_.nodes[id];
  std::vector<Seen> gradients;
  std::vector<ValueId> of;  // outputs with a gradient
  for (const ValueId output : node.outputs) {
    if (output.is_none() || !needs_gradient_[output]) continue;
    if (Seen gradient = finished_gradient(output); gradient.tensor != kNone) {
      gradients.push_back(std::move(gradient));
      of.push_back(output);
    }
  }
  if (gradients.empty() && id != seed_) return;
  const ViewKind kind = view_kind(model_, node);
  if (kind != ViewKind::none) return add_view_gradient(id, kind, gradients, of);
  if (node.type == "Concat") return add_concat_gradient(id, gradients[0]);
  add_rule(id, gradients, of);
}

void Expansion::add_view_gradient(NodeId id, ViewKind kind, const std::vector<Seen>& gradients,
                                  const std::vector<ValueId>& of) {
  const Node& node = model_.nodes[id];
  const ValueId whole = node.inputs[0];
  if (kind == ViewKind::alias) {
    Seen gradient = gradients[0];
    gradient.views.push_back({ViewStep::Kind::undo, id});
    return contribute(whole, std::move(gradient));
  }
  const Bytes bytes = byte_count(value(whole));
  if (kind == ViewKind::slice && node.type != "Split") {
    const SlicePart part{id, of[0], gradients[0]};
    if (options_.eager_slices)
      contribute(whole, {add_slice_gradient(whole, {part})});
    else
      pending_[whole].push_back(part);
    return;
  }
  const bool spread = kind == ViewKind::spread;
  const std::string type = spread ? "SumToShape" : "Concat";
  const double flops = spread ? static_cast<double>(element_count(value(of[0]))) : 0;
  std::int64_t traffic = bytes.count;
  for (const ValueId output : of) traffic += byte_count(value(output)).count;
  const auto op = add_backward_op(name_of_op(node) + "/grad", type, node.layer, flops, traffic,
                                  signature(type, of, {whole}), tensors(gradients));
  touch(op, whole);
  follow(op, whole);
  const Tensor made = draft_.add_output(op, value(whole).name + ".grad", bytes);
  OpRecipe& how = recipe(op, OpRecipe::Kind::view_gradient);
  how.node = id;
  how.reads = by_output(node, gradients, of);
  how.results = {result(made)};
  contribute(whole, {made});
}

void Expansion::add_concat_gradient(NodeId id, const Seen& gradient) {
  const Node& node = model_.nodes[id];
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (input.is_none() || !needs_gradient_[input]) continue;
    Seen part = gradient;
    part.views.push_back({ViewStep::Kind::part, id, i});
    if (byte_count(value(input)) != byte_count(value(node.outputs[0]))) {
      const Tensor slice = draft_.add_slice(gradient.tensor, value(input).name + ".grad", byte_count(value(input)));
      note_slice(slice, gradient.tensor, std::move(part.views));
      part = {slice};
    }
    contribute(input, std::move(part));
  }
}

void Expansion::add_rule(NodeId id, const std::vector<Seen>& gradients, const std::vector<ValueId>& of) {
  const Node& node = model_.nodes[id];
  std::vector<bool> wanted;
  for (const ValueId input : node.inputs) wanted.push_back(!input.is_none() && needs_gradient_[input]);
  BackwardRule rule = backward_rule(model_, node, wanted, {options_.dropout_mask_bytes, options_.pool_index_bytes});
  for (const std::size_t alias : rule.aliases) contribute(node.inputs[alias], gradients[0]);
  if (rule.pieces.empty()) return;
  if (rule.pieces.size() == 1)
    rule.pieces[0].suffix = "grad";
  else if (options_.granularity == Granularity::op)
    rule.pieces = {merged(rule)};

  std::vector<Tensor> extras;
  for (const SavedExtra& extra : rule.extras) {
    extras.push_back(draft_.add_output(op_[id], value(node.outputs[0]).name + '.' + extra.suffix, Bytes{extra.bytes},
                                       extra.statistics));
    recipes_[op_[id]].extras.push_back(TensorId{extras.back()});
  }
  for (const GradientPiece& piece : rule.pieces) add_piece(id, rule, piece, gradients, of, extras);
}

void Expansion::add_piece(NodeId id, const BackwardRule& rule, const GradientPiece& piece,
                          const std::vector<Seen>& gradients, const std::vector<ValueId>& of,
                          const std::vector<Tensor>& extras) {
  const Node& node = model_.nodes[id];
  std::vector<Tensor> inputs = tensors(gradients);
  std::vector<ValueId> reads = of, writes;
  std::int64_t bytes = piece.more_bytes;
  for (const ValueId read : piece.reads)
    if (std::find(reads.begin(), reads.end(), read) == reads.end()) reads.push_back(read);
  for (const ValueId read : reads) bytes += byte_count(value(read)).count;
  for (const ValueId read : piece.reads) inputs.push_back(tensor_[read]);
  for (const ValueId held : piece.holds) inputs.push_back(tensor_[held]);
  for (const std::size_t extra : piece.extras) {
    inputs.push_back(extras[extra]);
    bytes += rule.extras[extra].bytes;
  }
  for (const std::size_t position : piece.gradients) {
    writes.push_back(node.inputs[position]);
    bytes += byte_count(value(node.inputs[position])).count;
  }
  const auto op = add_backward_op(name_of_op(node) + '/' + piece.suffix, piece.type, node.layer, piece.flops, bytes,
                                  signature(piece.type, reads, writes), inputs);
  summary_.backward_matmul_flops += Flops{piece.matmul_flops};
  for (const ValueId read : piece.reads) touch(op, read);
  if (options_.colocate_gradients) draft_.join_ops(op, op_[id]);
  OpRecipe& how = recipe(op, OpRecipe::Kind::backward);
  how.node = id;
  how.gradients = by_output(node, gradients, of);
  const auto read = [&](ValueId of_node) {  // arrays that no op makes are always readable
    const bool reads_it = std::find(piece.reads.begin(), piece.reads.end(), of_node) != piece.reads.end();
    return !of_node.is_none() && (reads_it || tensor_[of_node] == kNone) ? operand(of_node) : Operand{};
  };
  for (const ValueId input : node.inputs) how.reads.push_back(read(input));
  for (const ValueId output : node.outputs) how.outputs.push_back(read(output));
  for (const std::size_t extra : piece.extras) how.extras.push_back(TensorId{extras[extra]});
  std::vector<Tensor> written;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    touch(op, writes[i]);
    written.push_back(draft_.add_output(op, value(writes[i]).name + ".grad", byte_count(value(writes[i]))));
    how.results.push_back(result(written[i], piece.gradients[i]));
  }
  for (std::size_t i = 0; i < writes.size(); ++i) contribute(writes[i], {written[i]});
}

Expansion::Tensor Expansion::add_clipping(const std::vector<std::pair<ValueId, Seen>>& gradients) {
  const auto add = [&](const std::string& name, const char* type, OpRecipe::Kind kind, ValueId of, double flops,
                       std::int64_t bytes, const std::vector<Seen>& reads) {
    const auto op = draft_.add_op({.name = name,
                                   .type = type,
                                   .phase = Phase::update,
                                   .layer = layer_of(of),
                                   .flops = Flops{flops},
                                   .bytes_accessed = Bytes{bytes}},
                                  tensors(reads));
    OpRecipe& how = recipe(op, kind);
    for (const Seen& read : reads) how.reads.push_back(operand(read));
    if (kind == OpRecipe::Kind::squares) {
      how.value = of;
      touch(op, of);
    }
    const Tensor made = draft_.add_output(op, name, Bytes{4});
    how.results = {result(made)};
    how.results[0].like = scalar_;
    summary_.update_flops += Flops{flops};
    ++summary_.update_ops;
    return made;
  };
  using Kind = OpRecipe::Kind;
  std::vector<Seen> squares;
  for (const auto& [id, gradient] : gradients)
    squares.push_back(
        {add(value(id).name + "/squares", kSquareSumType, Kind::squares, id,
             2 * static_cast<double>(element_count(value(id))), byte_count(value(id)).count, {gradient})});
  const ValueId last = gradients.back().first;
  const auto count = static_cast<std::int64_t>(squares.size());
  const Tensor sum =
      add("gradients/squares", kAddSquaresType, Kind::sum, last, static_cast<double>(count), 4 * (count + 1), squares);
  return add("gradients/clip", kClipScaleType, Kind::clip, last, 3, 8, {{sum}});
}

void Expansion::add_updates() {
  std::vector<std::pair<ValueId, Seen>> gradients;
  for (const ValueId id : model_.values.ids()) {
    if (value(id).role != Value::Role::parameter || !needs_gradient_[id]) continue;
    Seen gradient = finished_gradient(id);
    if (gradient.tensor != kNone)
      gradients.emplace_back(id, std::move(gradient));  // not frozen: the loss depends on it
  }
  std::optional<Tensor> scale;
  if (options_.clip_norm > 0 && !gradients.empty()) scale = add_clipping(gradients);
  for (const auto& [id, gradient] : gradients) {
    const std::int64_t count = element_count(value(id));
    UpdateCost cost = update_cost(options_.optimizer, count, bytes_per_element(value(id).type), options_.loss_scaling);
    std::vector<Tensor> inputs{gradient.tensor};
    if (scale) {
      inputs.push_back(*scale);
      cost.flops += Flops{static_cast<double>(count)};
      cost.bytes += 2 * byte_count(value(id));
    }
    const std::string type{update_type(options_.optimizer)};
    const auto op = draft_.add_op({.name = value(id).name + "/update",
                                   .type = type,
                                   .phase = Phase::update,
                                   .layer = layer_of(id),
                                   .signature = signature(type, {id, id}, {id}),
                                   .flops = cost.flops,
                                   .bytes_accessed = cost.bytes},
                                  inputs);
    OpRecipe& how = recipe(op, OpRecipe::Kind::update);
    how.value = id;
    how.reads = {operand(gradient)};
    if (scale) how.reads.push_back(operand(Seen{*scale}));
    touch(op, id);
    summary_.update_flops += cost.flops;
    ++summary_.update_ops;
  }
}

}  // namespace trainyard::detail
