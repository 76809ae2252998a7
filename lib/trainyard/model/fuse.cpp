#include "trainyard/model/fuse.hpp"

#include <algorithm>
#include <cmath>

#include "trainyard/model/op_kind.hpp"

namespace trainyard {

namespace {

/// Producers and consumers of each value, indexed once for one kind of pattern. Fused nodes are removed by finish().
class Fuser {
 public:
  explicit Fuser(Model& model) : model_(model) {
    for (const NodeId id : model.nodes.ids()) {
      for (const ValueId output : model.nodes[id].outputs)
        if (!output.is_none()) producer_[output] = id;
      for (const ValueId input : model.nodes[id].inputs)
        if (!input.is_none()) readers_[input].push_back(id);
    }
    for (const ValueId output : model.outputs) is_output_[output] = 1;
  }

  const Model& model() const { return model_; }
  const Node& node(NodeId id) const { return model_.nodes[id]; }
  const Value& value(ValueId id) const { return model_.values[id]; }

  ValueId input(NodeId id, std::size_t i) const { return input_at(node(id), i); }
  ValueId result(NodeId id) const { return node(id).outputs.empty() ? ValueId::none() : node(id).outputs[0]; }

  /// The live node of this type that makes the value.
  NodeId made_by(ValueId id, const char* type) const {
    if (id.is_none() || producer_[id].is_none()) return NodeId::none();
    const NodeId maker = producer_[id];
    return !dead_[maker] && node(maker).type == type && result(maker) == id ? maker : NodeId::none();
  }

  /// Number of uses of the value. Being an output of the model counts as one.
  std::size_t reads(ValueId id) const { return readers_[id].size() + is_output_[id]; }

  /// The only reader of the node's result if it is of this type; otherwise none.
  NodeId then(NodeId id, const char* type) const {
    const ValueId made = result(id);
    if (made.is_none() || reads(made) != 1 || is_output_[made]) return NodeId::none();
    const NodeId reader = readers_[made][0];
    return !dead_[reader] && node(reader).type == type ? reader : NodeId::none();
  }

  const std::vector<NodeId>& readers(ValueId id) const { return readers_[id]; }
  bool is_output(ValueId id) const { return is_output_[id] != 0; }

  /// The other input of a node with two inputs; none if `one` is not one of them.
  ValueId other(NodeId id, ValueId one) const {
    const auto& inputs = node(id).inputs;
    if (inputs.size() != 2) return ValueId::none();
    return inputs[0] == one ? inputs[1] : inputs[1] == one ? inputs[0] : ValueId::none();
  }

  bool is_literal(ValueId id) const { return !id.is_none() && value(id).role == Value::Role::constant; }

  /// Whether the value is a constant of one element that equals `number`. A constant without known contents is taken to
  /// match.
  bool is_number(ValueId id, double number) const {
    if (!is_literal(id) || elements(value(id).shape) != 1) return false;
    const Value& given = value(id);
    if (given.reals.empty() && given.integers.empty()) return true;
    const double found = given.reals.empty() ? static_cast<double>(given.integers[0]) : given.reals[0];
    return std::abs(found - number) <= 1e-3 * std::abs(number);
  }

  /// Whether the value is a parameter, or a view of one.
  bool is_parameter(ValueId id) const {
    while (!id.is_none()) {
      if (value(id).role == Value::Role::parameter) return true;
      const NodeId maker = producer_[id];
      if (maker.is_none()) return false;
      const std::string& type = node(maker).type;
      const bool view = type == "Transpose" || type == "Slice" || type == "Split" || type == "Reshape" ||
                        type == "Squeeze" || type == "Unsqueeze" || type == "Flatten" || type == "Expand";
      // A Gather of one known index is a view too, but a Gather from an embedding table is not, so it is left out.
      if (!view) return false;
      id = input(maker, 0);
    }
    return false;
  }

  /// Puts `fused` in place of the last of the nodes, and marks the others as dead.
  void replace(const std::vector<NodeId>& nodes, Node fused) {
    const NodeId last = *std::max_element(nodes.begin(), nodes.end());
    fused.name = node(nodes.front()).name;
    fused.layer = node(nodes.front()).layer;
    for (const NodeId id : nodes) dead_[id] = 1;
    dead_[last] = 0;
    model_.nodes[last] = std::move(fused);
    changed_ = true;
  }

  void drop(NodeId id) {
    dead_[id] = 1;
    changed_ = true;
  }
  bool is_dead(NodeId id) const { return dead_[id] != 0; }
  Model& edit() { return model_; }

  void finish() {
    if (changed_) remove_nodes(model_, dead_);
  }

 private:
  Model& model_;
  IdMap<ValueId, NodeId> producer_{model_.values.size()};
  IdMap<ValueId, std::vector<NodeId>> readers_{model_.values.size()};
  IdMap<ValueId, std::uint8_t> is_output_{model_.values.size()};
  IdMap<NodeId, std::uint8_t> dead_{model_.nodes.size()};
  bool changed_ = false;
};

bool pads_nothing(const Fuser& fuser, const Node& node) {
  const Value* from = node.inputs.empty() || node.inputs[0].is_none() ? nullptr : &fuser.value(node.inputs[0]);
  return from && from->shape_known && from->shape == fuser.value(node.outputs[0]).shape;
}

/// Removes nodes whose first output equals their first input.
void remove_identities(Model& model) {
  Fuser fuser{model};
  IdMap<ValueId, ValueId> instead(model.values.size());
  for (const NodeId id : model.nodes.ids()) {
    Node& node = model.nodes[id];
    for (ValueId& input : node.inputs)
      if (!input.is_none() && !instead[input].is_none()) input = instead[input];
    if (node.inputs.empty() || node.inputs[0].is_none() || node.outputs.empty() || node.outputs[0].is_none()) continue;
    const bool identity = node.type == "Identity" || (node.type == "Dropout" && !drops(model, node)) ||
                          (node.type == "Pad" && pads_nothing(fuser, node));
    const bool mask_used = node.outputs.size() > 1 && !node.outputs[1].is_none() && fuser.reads(node.outputs[1]) > 0;
    if (!identity || mask_used) continue;
    // The node stays if its result is an output of the model and its input is not made by a node.
    if (fuser.is_output(node.outputs[0]) && model.values[node.inputs[0]].role != Value::Role::activation) continue;
    instead[node.outputs[0]] = node.inputs[0];
    fuser.drop(id);
  }
  for (ValueId& output : model.outputs)
    if (!instead[output].is_none()) output = instead[output];
  fuser.finish();
}

/// Number of trailing axes over which a ReduceMean that keeps its dimensions reduces; 0 for any other node.
std::size_t trailing_axes(const Fuser& fuser, NodeId id) {
  const Node& node = fuser.node(id);
  if (node.type != "ReduceMean" || node.integer("keepdims", 1) == 0 || fuser.input(id, 0).is_none()) return 0;
  std::vector<std::int64_t> axes = node.integers("axes");
  if (const ValueId given = fuser.input(id, 1); axes.empty() && !given.is_none()) axes = fuser.value(given).integers;
  const auto rank = static_cast<std::int64_t>(fuser.value(fuser.input(id, 0)).shape.size());
  for (std::int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != rank - static_cast<std::int64_t>(axes.size() - i)) return 0;
  return axes.size();
}

/// Whether the value has the shape of a scale or shift for a norm over the last `axes` dimensions of `x`.
bool fits_trailing(const Fuser& fuser, ValueId id, ValueId x, std::size_t axes) {
  if (id.is_none()) return false;
  const Shape& shape = fuser.value(id).shape;
  const Shape& full = fuser.value(x).shape;
  const auto count = static_cast<std::ptrdiff_t>(axes);
  return shape == Shape(full.end() - count, full.end());
}

bool is_square(const Fuser& fuser, NodeId id, ValueId of) {
  const Node& node = fuser.node(id);
  if (node.type == "Mul") return node.inputs.size() == 2 && node.inputs[0] == of && node.inputs[1] == of;
  return node.type == "Pow" && fuser.input(id, 0) == of && fuser.is_number(fuser.input(id, 1), 2);
}

/// Fuses (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + shift.
void fuse_layer_norm(Fuser& fuser, NodeId mean) {
  const std::size_t axes = trailing_axes(fuser, mean);
  if (axes == 0) return;
  const ValueId x = fuser.input(mean, 0);
  const NodeId centered = fuser.then(mean, "Sub");
  if (centered.is_none() || fuser.input(centered, 0) != x) return;
  const ValueId deviation = fuser.result(centered);
  NodeId square = NodeId::none(), quotient = NodeId::none();
  for (const NodeId reader : fuser.readers(deviation))
    if (is_square(fuser, reader, deviation))
      square = reader;
    else if (fuser.node(reader).type == "Div" && fuser.input(reader, 0) == deviation)
      quotient = reader;
    else
      return;
  // x * x reads its factor twice.
  if (square.is_none() || quotient.is_none() || fuser.is_output(deviation)) return;
  if (fuser.reads(deviation) != (fuser.node(square).type == "Mul" ? 3U : 2U)) return;
  const NodeId variance = fuser.then(square, "ReduceMean");
  if (variance.is_none() || trailing_axes(fuser, variance) != axes) return;
  const NodeId shifted = fuser.then(variance, "Add");
  if (shifted.is_none()) return;
  const ValueId epsilon = fuser.other(shifted, fuser.result(variance));
  const NodeId root = fuser.then(shifted, "Sqrt");
  if (root.is_none() || !fuser.is_literal(epsilon)) return;
  if (fuser.then(root, "Div") != quotient || fuser.input(quotient, 1) != fuser.result(root)) return;
  const NodeId product = fuser.then(quotient, "Mul");
  if (product.is_none()) return;
  const ValueId scale = fuser.other(product, fuser.result(quotient));
  const NodeId sum = fuser.then(product, "Add");
  if (sum.is_none()) return;
  const ValueId shift = fuser.other(sum, fuser.result(product));
  if (!fits_trailing(fuser, scale, x, axes) || !fits_trailing(fuser, shift, x, axes)) return;
  Node norm{.type = "LayerNormalization", .inputs = {x, scale, shift}, .outputs = fuser.node(sum).outputs};
  norm.attributes["axis"] = -static_cast<std::int64_t>(axes);
  if (!fuser.value(epsilon).reals.empty()) norm.attributes["epsilon"] = fuser.value(epsilon).reals[0];
  fuser.replace({mean, centered, square, variance, shifted, root, quotient, product, sum}, std::move(norm));
}

/// The common end of both forms of Gelu: the product of x, t and 1/2 in any order, with t = 1 + erf(..) or 1 +
/// tanh(..).
void fuse_gelu_tail(Fuser& fuser, ValueId x, NodeId function, std::vector<NodeId> inner, const char* approximation) {
  const NodeId sum = fuser.then(function, "Add");
  if (sum.is_none() || !fuser.is_number(fuser.other(sum, fuser.result(function)), 1)) return;
  const NodeId first = fuser.then(sum, "Mul");
  if (first.is_none()) return;
  const ValueId factor = fuser.other(first, fuser.result(sum));
  inner.insert(inner.end(), {function, sum, first});
  NodeId last = NodeId::none();
  if (factor == x || fuser.is_number(factor, 0.5)) {  // (x * t) * 0.5, (0.5 * t) * x
    last = fuser.then(first, "Mul");
    if (last.is_none()) return;
    const ValueId rest = fuser.other(last, fuser.result(first));
    if (factor == x ? !fuser.is_number(rest, 0.5) : rest != x) return;
    inner.push_back(last);
  } else {  // (0.5 * x) * t
    const NodeId half = fuser.made_by(factor, "Mul");
    if (half.is_none() || fuser.reads(factor) != 1 || !fuser.is_number(fuser.other(half, x), 0.5)) return;
    inner.push_back(half);
    last = first;
  }
  Node gelu{.type = "Gelu", .inputs = {x}, .outputs = fuser.node(last).outputs};
  gelu.attributes["approximate"] = std::string{approximation};
  // Intermediate values must have no other consumer.
  for (const NodeId id : inner)
    if (id != last && fuser.reads(fuser.result(id)) != 1) return;
  fuser.replace(inner, std::move(gelu));
}

void fuse_erf_gelu(Fuser& fuser, NodeId erf) {
  const ValueId scaled = fuser.input(erf, 0);
  if (scaled.is_none() || fuser.reads(scaled) != 1) return;
  if (const NodeId divided = fuser.made_by(scaled, "Div"); !divided.is_none()) {
    if (!fuser.is_number(fuser.input(divided, 1), std::sqrt(2.0))) return;
    return fuse_gelu_tail(fuser, fuser.input(divided, 0), erf, {divided}, "none");
  }
  if (const NodeId multiplied = fuser.made_by(scaled, "Mul"); !multiplied.is_none()) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (!fuser.is_number(fuser.input(multiplied, i), std::sqrt(0.5))) continue;
      return fuse_gelu_tail(fuser, fuser.input(multiplied, 1 - i), erf, {multiplied}, "none");
    }
  }
}

/// Whether the value is x^3, as a power or as products. Appends the nodes that compute it.
bool is_cube(const Fuser& fuser, ValueId id, ValueId x, std::vector<NodeId>& nodes) {
  if (const NodeId power = fuser.made_by(id, "Pow"); !power.is_none()) {
    nodes.push_back(power);
    return fuser.input(power, 0) == x && fuser.is_number(fuser.input(power, 1), 3);
  }
  const NodeId outer = fuser.made_by(id, "Mul");
  if (outer.is_none()) return false;
  const NodeId square = fuser.made_by(fuser.other(outer, x), "Mul");
  if (square.is_none() || !is_square(fuser, square, x)) return false;
  nodes.insert(nodes.end(), {outer, square});
  return true;
}

/// Matches tanh(sqrt(2 / pi) * (x + 0.044715 x^3)).
void fuse_tanh_gelu(Fuser& fuser, NodeId tanh) {
  const NodeId scaled = fuser.made_by(fuser.input(tanh, 0), "Mul");
  if (scaled.is_none()) return;
  const double factor = std::sqrt(2 / 3.14159265358979323846);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!fuser.is_number(fuser.input(scaled, 1 - i), factor)) continue;
    const NodeId sum = fuser.made_by(fuser.input(scaled, i), "Add");
    if (sum.is_none() || fuser.node(sum).inputs.size() != 2) continue;
    for (const ValueId x : fuser.node(sum).inputs) {
      const NodeId term = fuser.made_by(fuser.other(sum, x), "Mul");
      if (term.is_none() || fuser.node(term).inputs.size() != 2) continue;
      for (std::size_t j = 0; j < 2; ++j) {
        std::vector<NodeId> inner = {scaled, sum, term};
        if (!fuser.is_number(fuser.input(term, 1 - j), 0.044715)) continue;
        if (!is_cube(fuser, fuser.input(term, j), x, inner)) continue;
        return fuse_gelu_tail(fuser, x, tanh, std::move(inner), "tanh");
      }
    }
  }
}

void fuse_linear(Fuser& fuser, NodeId product) {
  const ValueId x = fuser.input(product, 0), weight = fuser.input(product, 1);
  if (x.is_none() || weight.is_none() || fuser.value(weight).shape.size() != 2 || fuser.value(x).shape.size() < 2)
    return;
  if (!fuser.is_parameter(weight)) return;
  Node linear{.type = "Linear", .inputs = {x, weight}, .outputs = fuser.node(product).outputs};
  const NodeId sum = fuser.then(product, "Add");
  const ValueId bias = sum.is_none() ? ValueId::none() : fuser.other(sum, fuser.result(product));
  const bool has_bias =
      !bias.is_none() && fuser.value(bias).shape == Shape{fuser.value(weight).shape[1]} && fuser.is_parameter(bias);
  if (!has_bias) return fuser.replace({product}, std::move(linear));
  linear.inputs.push_back(bias);
  linear.outputs = fuser.node(sum).outputs;
  fuser.replace({product, sum}, std::move(linear));
}

/// Merges a constant Pad into the pool. An average pool takes padding by zeros (and then counts them), a max pool
/// padding by the lowest number.
void fuse_padded_pool(Fuser& fuser, NodeId pool) {
  const NodeId pad = fuser.made_by(fuser.input(pool, 0), "Pad");
  if (pad.is_none() || fuser.reads(fuser.result(pad)) != 1) return;
  const Node& padding = fuser.node(pad);
  if (padding.text("mode", "constant") != "constant" || fuser.input(pad, 0).is_none() || padding.inputs.size() > 3)
    return;
  Node fused = fuser.node(pool);
  const bool average = fused.type == "AveragePool";
  const ValueId filler = fuser.input(pad, 2);
  double fill = padding.real("value", 0);
  if (!filler.is_none()) {
    if (fuser.value(filler).reals.size() != 1) return;
    fill = fuser.value(filler).reals[0];
  }
  if (average ? fill != 0 : fill > -1e30) return;
  std::vector<std::int64_t> pads = padding.integers("pads");
  if (const ValueId given = fuser.input(pad, 1); !given.is_none()) pads = fuser.value(given).integers;
  const std::size_t rank = fuser.value(fuser.result(pad)).shape.size();
  if (rank < 3 || pads.size() != 2 * rank) return;
  std::vector<std::int64_t> own = fused.integers("pads");
  if (own.empty()) own.assign(2 * (rank - 2), 0);
  const bool pads_itself = std::any_of(own.begin(), own.end(), [](std::int64_t n) { return n != 0; });
  if (fused.text("auto_pad", "NOTSET") != "NOTSET" || own.size() != 2 * (rank - 2)) return;
  if (average && pads_itself && fused.integer("count_include_pad", 0) == 0) return;
  if (pads[0] != 0 || pads[1] != 0 || pads[rank] != 0 || pads[rank + 1] != 0) return;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (pads[i + 2] < 0 || pads[rank + i + 2] < 0) return;
    own[i] += pads[i + 2];
    own[rank - 2 + i] += pads[rank + i + 2];
  }
  fused.inputs = {fuser.input(pad, 0)};
  fused.attributes["pads"] = own;
  if (average) fused.attributes["count_include_pad"] = std::int64_t{1};
  fuser.replace({pool, pad}, std::move(fused));
}

template <class Pattern>
void for_each_node(Model& model, const char* type, Pattern fuse) {
  Fuser fuser{model};
  for (const NodeId id : model.nodes.ids())
    if (!fuser.is_dead(id) && model.nodes[id].type == type) fuse(fuser, id);
  fuser.finish();
}

}  // namespace

void fuse_patterns(Model& model) {
  remove_identities(model);
  for_each_node(model, "ReduceMean", fuse_layer_norm);
  for_each_node(model, "Erf", fuse_erf_gelu);
  for_each_node(model, "Tanh", fuse_tanh_gelu);
  for_each_node(model, "MatMul", fuse_linear);
  for_each_node(model, "AveragePool", fuse_padded_pool);
  for_each_node(model, "MaxPool", fuse_padded_pool);
}

}  // namespace trainyard
