#include "trainyard/training/backward_rules.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "trainyard/model/forward_cost.hpp"
#include "trainyard/model/op_kind.hpp"
#include "trainyard/model/shape_inference.hpp"

namespace trainyard {
namespace {

/// A node, its model and the wanted gradients, with short names for the rules below.
struct Context {
  const Model& model;
  const Node& node;
  const std::vector<bool>& wanted;

  bool wants(std::size_t input) const { return input < wanted.size() && wanted[input]; }
  ValueId in(std::size_t input) const { return node.inputs[input]; }
  ValueId out() const { return node.outputs[0]; }
  std::int64_t count(ValueId value) const { return element_count(model.values[value]); }
  double n(ValueId value) const { return static_cast<double>(count(value)); }
  double y() const { return n(out()); }
  double last(ValueId value) const { return static_cast<double>(model.values[value].shape.back()); }
  bool broadcast(std::size_t input) const { return model.values[in(input)].shape != model.values[out()].shape; }
  std::vector<std::size_t> wanted_among(std::size_t first, std::size_t last) const {
    std::vector<std::size_t> result;
    for (std::size_t i = first; i < last; ++i)
      if (wants(i)) result.push_back(i);
    return result;
  }
};

/// Letter of an operand in the name of its gradient op: "b" for input 1.
std::string letter(std::size_t input) { return std::string(1, static_cast<char>('a' + static_cast<int>(input % 26))); }

BackwardRule matmul_rule(const Context& c) {
  const std::string& type = c.node.type;
  const double flops = forward_cost(c.model, c.node).matmul_flops.value;
  const bool weighted = type != "MatMul" && type != "Gemm";  // operands named X, W, b rather than A, B, c
  // A batched product sums the gradient of a broadcast operand over the batch. For a plain matrix operand (at most two
  // dimensions) the product itself does that sum.
  const auto reduction = [&](std::size_t input) {
    const Shape& own = c.model.values[c.in(input)].shape;
    const Shape& out = c.model.values[c.out()].shape;
    if (type != "MatMul" || own.size() <= 2 || own.size() > out.size()) return 0.0;
    double batch = 1, whole = 1;
    for (std::size_t i = 0; i + 2 < own.size(); ++i) batch *= static_cast<double>(own[i]);
    for (std::size_t i = 0; i + 2 < out.size(); ++i) whole *= static_cast<double>(out[i]);
    return batch < whole ? c.n(c.in(input)) / batch * whole : 0.0;
  };
  BackwardRule rule{.type = type + "Grad"};
  if (c.wants(0))
    rule.pieces.push_back({.type = type + (weighted ? "GradX" : "GradA"),
                           .suffix = weighted ? "grad_x" : "grad_a",
                           .flops = flops + reduction(0),
                           .matmul_flops = flops,
                           .reads = {c.in(1)},
                           .gradients = {0}});
  if (c.wants(1))
    rule.pieces.push_back({.type = type + (weighted ? "GradW" : "GradB"),
                           .suffix = weighted ? "grad_w" : "grad_b",
                           .flops = flops + reduction(1),
                           .matmul_flops = flops,
                           .reads = {c.in(0)},
                           .gradients = {1}});
  if (c.wants(2))
    rule.pieces.push_back({.type = type + (weighted ? "GradB" : "GradC"),
                           .suffix = weighted ? "grad_b" : "grad_c",
                           .flops = c.y(),
                           .gradients = {2}});
  return rule;
}

/// The gradient of an operand contracts the gradient of the result with all other operands, over the letters of the
/// forward op.
BackwardRule einsum_rule(const Context& c) {
  const ForwardCost forward = forward_cost(c.model, c.node);
  BackwardRule rule{.type = "EinsumGrad"};
  for (std::size_t i = 0; i < c.node.inputs.size(); ++i) {
    if (!c.wants(i)) continue;
    GradientPiece piece{.type = rule.type,
                        .suffix = "grad_" + letter(i),
                        .flops = forward.flops.value,
                        .matmul_flops = forward.matmul_flops.value,
                        .gradients = {i}};
    for (std::size_t other = 0; other < c.node.inputs.size(); ++other)
      if (other != i) piece.reads.push_back(c.in(other));
    rule.pieces.push_back(std::move(piece));
  }
  return rule;
}

/// One op for both of cuDNN's calls: the sequence run backwards (data), and the gradients of the weights.
BackwardRule recurrent_rule(const Context& c) {
  const std::string& type = c.node.type;
  const RecurrentShape shape = recurrent_shape(c.model, c.node);
  const std::int64_t size = bytes_per_element(c.model.values[c.in(0)].type);
  const auto cells = static_cast<std::int64_t>(shape.cells());
  BackwardRule rule{.type = type + "Grad"};
  // The gates, c, tanh c and h of LSTM; GRU and RNN use fewer.
  rule.extras = {{"gates", cells * (static_cast<std::int64_t>(shape.gates) + 3) * size}};
  const double data = shape.hidden_flops() + (c.wants(0) ? shape.input_flops() : 0);
  GradientPiece piece{.type = type + "Grad",
                      .suffix = "grad",
                      .flops = data + 40 * shape.cells(),
                      .matmul_flops = data,
                      .reads = {c.in(1), c.in(2)},
                      .extras = {0},
                      .gradients = c.wanted_among(0, c.node.inputs.size())};
  if (c.wants(1) || c.wants(2)) {
    const double weights = (c.wants(1) ? shape.input_flops() : 0) + (c.wants(2) ? shape.hidden_flops() : 0);
    piece.flops += weights;
    piece.matmul_flops += weights;
    piece.reads.push_back(c.in(0));
  }
  rule.pieces = {piece};
  return rule;
}

BackwardRule normalization_rule(const Context& c) {
  const ValueId x = c.in(0);
  const Shape& shape = c.model.values[x].shape;
  const std::string& type = c.node.type;
  BackwardRule rule{.type = type == "BatchNormalization" ? "BatchNormGrad" : type + "Grad"};
  GradientPiece piece{.type = rule.type, .suffix = "grad", .gradients = c.wanted_among(0, 3)};
  if (type == "BatchNormalization" && !uses_batch_statistics(c.model, c.node)) {
    piece.flops = 2 * c.y();
    piece.reads = {c.in(1)};
    if (c.wants(1)) piece.reads.push_back(x);
    rule.pieces = {piece};
    return rule;
  }
  // Saved in fp32: mean and 1/deviation (RMS norms: only the latter) per channel, per row, per sample and channel, or
  // per group.
  const bool centred = type != "RMSNormalization" && type != "SimplifiedLayerNormalization";
  std::int64_t statistics = 0;
  const std::int64_t samples = shape.empty() ? 1 : shape[0];
  if (type == "BatchNormalization") {
    statistics = c.count(c.in(1));
    piece.flops = 11 * c.y();
    piece.more_bytes = byte_count(c.model.values[x]).count * 2;  // dY and X are read twice
  } else if (type == "LayerNormalization" || !centred) {
    const std::int64_t rank = static_cast<std::int64_t>(shape.size());
    const std::int64_t axis = c.node.integer("axis", -1);
    statistics = 1;
    for (std::int64_t i = 0; i < (axis < 0 ? axis + rank : axis); ++i) statistics *= shape[static_cast<std::size_t>(i)];
    piece.flops = (centred ? 14 : 10) * c.y();
  } else {
    statistics = samples * (type == "GroupNormalization" ? c.node.integer("num_groups", 1) : c.count(c.in(1)));
    piece.flops = 14 * c.y();
  }
  piece.reads = {x};
  if (c.node.inputs.size() > 1 && !c.in(1).is_none()) piece.reads.push_back(c.in(1));
  piece.extras = {0};
  rule.extras = {{"stats", (centred ? 8 : 4) * statistics, type == "BatchNormalization"}};
  rule.pieces = {piece};
  return rule;
}

/// One kernel. It recomputes the scores from the log-sum-exp that each row keeps in fp32, and reads Y for the row sums
/// of dY Y. For each pair it computes 3 products of d_qk and 2 of d_v; the forward op computes one of each.
///
/// T. Dao: FlashAttention-2. ICLR 2024, algorithm 2.
BackwardRule attention_rule(const Context& c) {
  const AttentionShape shape = attention_shape(c.model, c.node);
  BackwardRule rule{.type = "AttentionGrad"};
  rule.extras = {{"logsumexp", 4 * static_cast<std::int64_t>(shape.rows)}};
  const double matmul = 2 * shape.pairs * (3 * shape.size + 2 * shape.value_size);
  GradientPiece piece{.type = rule.type,
                      .suffix = "grad",
                      .flops = matmul + (c.wants(3) ? 9 : 8) * shape.pairs,
                      .matmul_flops = matmul,
                      .reads = {c.in(0), c.in(1), c.in(2), c.out()},
                      .extras = {0},
                      .gradients = c.wanted_among(0, c.node.inputs.size())};
  if (const ValueId mask = input_at(c.node, 3); !mask.is_none()) piece.reads.push_back(mask);
  rule.pieces = {piece};
  return rule;
}

/// Ops of two operands, and Where, Sum, Max and others: one piece per operand, including the sum over broadcast
/// dimensions.
BackwardRule operand_rule(const Context& c) {
  const std::string& type = c.node.type;
  BackwardRule rule{.type = type == "Add" || type == "Sum" ? "SumToShape" : type + "Grad"};
  for (std::size_t i = 0; i < c.node.inputs.size(); ++i) {
    if (!c.wants(i)) continue;
    GradientPiece piece{.type = type + "Grad", .suffix = "grad_" + letter(i), .flops = c.y(), .gradients = {i}};
    const bool broadcast = c.broadcast(i);
    const bool plain_sum = type == "Add" || type == "Sum" || (type == "Sub" && i == 0);
    if (plain_sum) {
      if (!broadcast) {
        rule.aliases.push_back(i);
        continue;
      }
      piece.type = "SumToShape";
      rule.pieces.push_back(piece);
      continue;
    }
    if (type == "Mul") {
      piece.reads = {c.in(1 - i)};
    } else if (type == "Div") {
      piece.reads = {c.in(1)};
      if (i == 1) piece.reads.push_back(c.in(0)), piece.flops = 3 * c.y();
    } else if (type == "Where") {
      piece.reads = {c.in(0)};
    } else if (type == "Max" || type == "Min" || type == "Pow") {
      piece.reads = c.node.inputs;
      if (type == "Pow") piece.flops = 4 * c.y();
    }
    if (broadcast) piece.flops += c.y();
    rule.pieces.push_back(piece);
  }
  return rule;
}

struct UnaryRule {
  std::string_view type;
  double flops;
  bool from_output;  // reads Y instead of X
};
constexpr std::array<UnaryRule, 26> kUnary{{
    {"Relu", 1, true},       {"Sigmoid", 3, true},    {"Tanh", 3, true},         {"Softmax", 4, true},
    {"LogSoftmax", 4, true}, {"Sqrt", 2, true},       {"Exp", 2, true},          {"Reciprocal", 2, true},
    {"LeakyRelu", 1, false}, {"Clip", 1, false},      {"Gelu", 14, false},       {"Erf", 4, false},
    {"Log", 2, false},       {"Abs", 1, false},       {"Softplus", 4, false},    {"Elu", 3, false},
    {"Selu", 3, false},      {"HardSwish", 3, false}, {"HardSigmoid", 2, false}, {"Swish", 6, false},
    {"Mish", 10, false},     {"Sin", 2, false},       {"Cos", 2, false},         {"ThresholdedRelu", 1, false},
    {"Celu", 3, false},      {"Softsign", 3, false},
}};

/// Whether the gradient needs only dY, which is moved, spread or scaled.
bool needs_gradient_only(std::string_view type) {
  static constexpr std::array<std::string_view, 12> kNeedGradientOnly{
      "GlobalAveragePool", "ReduceMean",   "ReduceSum",    "Neg",   "Cast", "Pad", "Tile", "Resize",
      "Upsample",          "DepthToSpace", "SpaceToDepth", "CumSum"};
  return std::find(kNeedGradientOnly.begin(), kNeedGradientOnly.end(), type) != kNeedGradientOnly.end();
}

BackwardRule one_piece(std::string type, GradientPiece piece) {
  piece.type = type;
  piece.suffix = "grad";
  if (piece.gradients.empty()) piece.gradients = {0};
  return {.type = std::move(type), .pieces = {std::move(piece)}};
}

}  // namespace

bool is_differentiable(const std::string& type) {
  static constexpr std::array<std::string_view, 25> kNot{"Shape",
                                                         "Size",
                                                         "Constant",
                                                         "ConstantOfShape",
                                                         "Equal",
                                                         "Greater",
                                                         "Less",
                                                         "GreaterOrEqual",
                                                         "LessOrEqual",
                                                         "And",
                                                         "Or",
                                                         "Not",
                                                         "Xor",
                                                         "ArgMax",
                                                         "ArgMin",
                                                         "Floor",
                                                         "Ceil",
                                                         "Round",
                                                         "Sign",
                                                         "IsNaN",
                                                         "OneHot",
                                                         "NonZero",
                                                         "Range",
                                                         "EyeLike",
                                                         "RandomNormalLike"};
  return std::find(kNot.begin(), kNot.end(), type) == kNot.end();
}

BackwardRule backward_rule(const Model& model, const Node& node, const std::vector<bool>& wanted,
                           const SavedSizes& sizes) {
  const Context c{model, node, wanted};
  const std::string& type = node.type;
  if (type == "LSTM" || type == "GRU" || type == "RNN") return recurrent_rule(c);
  if (is_matmul_like(type)) return matmul_rule(c);
  if (type == "Einsum") return einsum_rule(c);
  if (type == "Attention") return attention_rule(c);
  if (type == "ExpertDispatch")  // a token's gradient is the sum over its copies
    return one_piece("ExpertDispatchGrad", {.flops = c.n(c.in(1)) * c.last(c.in(0)), .reads = {c.in(1)}});
  if (type == "ExpertCombine") {
    // For each choice: dy = w dY, and dw = y dY summed over the features.
    const double choices = c.n(c.in(1)) * c.last(c.out());
    GradientPiece piece{.flops = choices * ((c.wants(0) ? 1 : 0) + (c.wants(1) ? 2 : 0)),
                        .reads = {c.in(2)},
                        .gradients = c.wanted_among(0, 2)};
    if (c.wants(0)) piece.reads.push_back(c.in(1));
    if (c.wants(1)) piece.reads.push_back(c.in(0));
    return one_piece("ExpertCombineGrad", std::move(piece));
  }
  if (type.ends_with("Normalization") && has_shape_rule(type) && type != "MeanVarianceNormalization" &&
      type != "LpNormalization")
    return normalization_rule(c);
  for (const std::string_view operand_type : {"Add", "Sub", "Mul", "Div", "Pow", "Where", "Sum", "Max", "Min", "Mean"})
    if (type == operand_type) return operand_rule(c);
  for (const UnaryRule& unary : kUnary)
    if (type == unary.type)
      return one_piece(type + "Grad", {.flops = unary.flops * c.y(), .reads = {unary.from_output ? c.out() : c.in(0)}});

  if (type == "MaxPool") {
    BackwardRule rule = one_piece("MaxPoolGrad", {.flops = c.n(c.in(0)), .holds = {c.in(0)}, .extras = {0}});
    rule.extras = {{"indices", sizes.pool_index * c.count(c.out())}};
    return rule;
  }
  if (type == "AveragePool") return one_piece("AveragePoolGrad", {.flops = c.n(c.in(0)), .holds = {c.in(0)}});
  if (type == "Dropout") {
    BackwardRule rule = one_piece("DropoutGrad", {.flops = c.y(), .extras = {0}});
    rule.extras = {{"mask", sizes.dropout_mask * c.count(c.out())}};
    return rule;
  }
  if (type == "Gather") {
    const bool table = model.values[c.in(0)].role == Value::Role::parameter;
    return one_piece(table ? "EmbeddingGrad" : "GatherGrad", {.flops = c.y(), .reads = {c.in(1)}});
  }
  if (type == "GatherElements" || type == "GatherND")
    return one_piece(type + "Grad", {.flops = c.y(), .reads = {c.in(1)}});
  if (type == "SoftmaxCrossEntropy" || type == "SoftmaxCrossEntropyLoss") {
    // The log-probabilities are kept in fp32, and the labels with them.
    BackwardRule rule =
        one_piece("SoftmaxCrossEntropyGrad", {.flops = 5 * c.n(c.in(0)), .reads = {c.in(1)}, .extras = {0}});
    rule.extras = {{"logp", 4 * c.count(c.in(0))}};
    return rule;
  }
  if (needs_gradient_only(type))
    return one_piece(type + "Grad", {.flops = type == "Pad" || type == "Cast" ? 0 : std::max(c.n(c.in(0)), c.y())});
  if (type == "ReduceMax" || type == "ReduceMin" || type == "GlobalMaxPool")
    return one_piece(type + "Grad", {.flops = c.n(c.in(0)), .reads = {c.in(0), c.out()}});

  GradientPiece piece{.flops = 2 * c.y(), .gradients = c.wanted_among(0, node.inputs.size())};
  for (const ValueId input : node.inputs)
    if (!input.is_none()) piece.reads.push_back(input);
  return one_piece(type + "Grad", std::move(piece));
}

}  // namespace trainyard
