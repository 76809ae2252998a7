#include "trainyard/model/forward_cost.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard {
namespace {

/// Sizes of one node's inputs and outputs, by position.
class Sizes {
 public:
  Sizes(const Model& model, const Node& node) : model_(model), node_(node) {}

  bool has(std::size_t input) const { return !input_at(node_, input).is_none(); }
  const Shape& shape(std::size_t input) const {
    const Value& value = model_.values[node_.inputs[input]];
    element_count(value);  // throws if the shape is not known
    return value.shape;
  }
  double in(std::size_t input) const { return static_cast<double>(element_count(model_.values[node_.inputs[input]])); }
  double out() const { return static_cast<double>(element_count(model_.values[node_.outputs[0]])); }
  std::int64_t in_bytes(std::size_t input) const {
    return has(input) ? byte_count(model_.values[node_.inputs[input]]).count : 0;
  }
  std::int64_t out_bytes() const { return byte_count(model_.values[node_.outputs[0]]).count; }

  /// Bytes of every distinct input, counted once, and of the first output.
  std::int64_t all_bytes() const {
    std::vector<ValueId> seen;
    std::int64_t sum = out_bytes();
    for (const ValueId input : node_.inputs) {
      if (input.is_none() || std::find(seen.begin(), seen.end(), input) != seen.end()) continue;
      seen.push_back(input);
      sum += byte_count(model_.values[input]).count;
    }
    return sum;
  }

 private:
  const Model& model_;
  const Node& node_;
};

double product(const Shape& shape, std::size_t first) {
  double result = 1;
  for (std::size_t i = first; i < shape.size(); ++i) result *= static_cast<double>(shape[i]);
  return result;
}

double matmul_flops(const Model& model, const Node& node, const Sizes& sizes) {
  if (node.type == "Conv") return 2 * sizes.out() * product(sizes.shape(1), 1);
  if (node.type == "ConvTranspose") return 2 * sizes.in(0) * product(sizes.shape(1), 1);
  if (node.type == "Gemm") {
    const Shape& a = sizes.shape(0);
    return 2 * sizes.out() * static_cast<double>(a.at(node.integer("transA", 0) != 0 ? 0 : 1));
  }
  if (node.type == "Linear" || node.type == "MatMul")
    return sizes.shape(0).empty() ? 0 : 2 * sizes.out() * static_cast<double>(sizes.shape(0).back());
  return recurrent_shape(model, node).matmul_flops();
}

/// A multiply-add for each combination of the letters of an Einsum with two terms or more; 1 FLOP each with one term.
/// An ellipsis stands for further letters, numbered from its last dimension.
double einsum_flops(const Node& node, const Sizes& sizes) {
  std::string left = node.text("equation", "");
  std::erase(left, ' ');
  left.resize(std::min(left.find("->"), left.size()));
  std::map<char, std::int64_t> extents;
  for (std::size_t input = 0; input < node.inputs.size(); ++input) {
    std::string term = left.substr(0, left.find(','));
    left.erase(0, term.size() + 1);
    const std::size_t rank = sizes.has(input) ? sizes.shape(input).size() : 0, dots = term.find("...");
    if (dots != std::string::npos) {
      term.erase(dots, 3);
      for (std::size_t i = 0; term.size() < rank; ++i) term.insert(dots, 1, static_cast<char>('0' + i));
    }
    for (std::size_t i = 0; i < std::min(term.size(), rank); ++i) {
      std::int64_t& extent = extents[term[i]];
      extent = std::max(extent, sizes.shape(input)[i]);
    }
  }
  double flops = node.inputs.size() > 1 ? 2 : 1;
  for (const auto& [letter, extent] : extents) flops *= static_cast<double>(extent);
  return flops;
}

/// FLOPs per element of the output or, for reductions (reduces()), of input 0.
double flops_per_element(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, double>, 26> kKnown{{
      {"Sigmoid", 4},
      {"Tanh", 5},
      {"Gelu", 10},
      {"Erf", 8},
      {"Softmax", 5},
      {"LogSoftmax", 5},
      {"Log", 4},
      {"Softplus", 5},
      {"Elu", 4},
      {"Selu", 4},
      {"HardSwish", 4},
      {"Swish", 5},
      {"Mish", 10},
      {"LayerNormalization", 8},
      {"RMSNormalization", 4},
      {"SimplifiedLayerNormalization", 4},
      {"HardSigmoid", 3},
      {"Gather", 0},
      {"ExpertDispatch", 0},
      {"Concat", 0},
      {"Pad", 0},
      {"Cast", 0},
      {"InstanceNormalization", 8},
      {"GroupNormalization", 8},
      {"Shape", 0},
      {"ConstantOfShape", 0},
  }};
  for (const auto& [name, flops] : kKnown)
    if (name == type) return flops;
  return 1;
}

bool reduces(std::string_view type) {
  return type.starts_with("Reduce") || type.starts_with("Global") || type.starts_with("Arg") || type == "CumSum" ||
         type == "TopK";
}

}  // namespace

RecurrentShape recurrent_shape(const Model& model, const Node& node) {
  const Sizes sizes(model, node);
  const Shape& x = sizes.shape(0);  // [steps, batch, inputs], or [batch, steps, inputs] in layout 1
  const Shape& r = sizes.shape(2);  // [directions, gates x hidden, hidden]
  const bool batch_first = node.integer("layout", 0) != 0;
  return {.directions = static_cast<double>(r.at(0)),
          .steps = static_cast<double>(x.at(batch_first ? 1 : 0)),
          .batch = static_cast<double>(x.at(batch_first ? 0 : 1)),
          .inputs = static_cast<double>(x.at(2)),
          .hidden = static_cast<double>(r.at(2)),
          .gates = node.type == "LSTM"  ? 4.0
                   : node.type == "GRU" ? 3.0
                                        : 1.0};
}

AttentionShape attention_shape(const Model& model, const Node& node) {
  const Sizes sizes(model, node);
  const Shape &q = sizes.shape(0), &k = sizes.shape(1), &v = sizes.shape(2);
  const bool apart = q.size() == 4;  // layout [batch, heads, length, size]; else [batch, length, heads size]
  const auto heads = static_cast<double>(apart ? q.at(1) : node.integer("q_num_heads", 1));
  const auto shared = static_cast<double>(apart ? k.at(1) : node.integer("kv_num_heads", 1));
  AttentionShape shape{.heads = heads,
                       .rows = static_cast<double>(q.at(0)) * heads * static_cast<double>(q.at(apart ? 2 : 1)),
                       .size = static_cast<double>(q.back()) / (apart ? 1 : heads),
                       .value_size = static_cast<double>(v.back()) / (apart ? 1 : shared)};
  shape.pairs = shape.rows * static_cast<double>(k.at(apart ? 2 : 1)) / (node.integer("is_causal", 0) != 0 ? 2 : 1);
  return shape;
}

ForwardCost forward_cost(const Model& model, const Node& node, std::int64_t mask_bytes) {
  if (is_view(model, node) || node.outputs.empty() || node.outputs[0].is_none()) return {};
  const Sizes sizes(model, node);
  const auto& type = node.type;
  const double y = sizes.out();
  if (type == "LSTM" || type == "GRU" || type == "RNN") {
    const RecurrentShape shape = recurrent_shape(model, node);
    const double matmul = shape.matmul_flops();
    const double weights = static_cast<double>(sizes.in_bytes(1) + sizes.in_bytes(2));
    const double bytes = static_cast<double>(sizes.all_bytes()) + (shape.steps - 1) * weights;  // W, R in every step
    if (bytes > 0x1p60)
      refuse("too-large", "the weights of '" + node.name + "' over all steps take more than 2^60 bytes",
             "check the sizes that its dimensions are bound to");
    return {Flops{matmul + 38 * shape.cells() * shape.gates / 4}, Flops{matmul},
            Bytes{static_cast<std::int64_t>(bytes)}};
  }
  if (is_matmul_like(type)) {
    const double matmul = matmul_flops(model, node, sizes);
    return {Flops{matmul + (sizes.has(2) ? y : 0)}, Flops{matmul}, Bytes{sizes.all_bytes()}};
  }
  if (type == "Einsum") {
    const double flops = einsum_flops(node, sizes);
    return {Flops{flops}, Flops{node.inputs.size() > 1 ? flops : 0}, Bytes{sizes.all_bytes()}};
  }
  if (type == "BatchNormalization") {
    const std::int64_t data = sizes.in_bytes(0) + sizes.out_bytes();
    if (!uses_batch_statistics(model, node)) return {Flops{2 * y}, {}, Bytes{data}};
    const std::int64_t per_channel = 6 * 4;  // scale, bias, two statistics read and written
    return {Flops{8 * y}, {}, Bytes{data + sizes.in_bytes(0) + per_channel * static_cast<std::int64_t>(sizes.in(1))}};
  }
  if (type == "Attention") {
    const AttentionShape shape = attention_shape(model, node);
    const double matmul = 2 * shape.pairs * (shape.size + shape.value_size);
    return {Flops{matmul + 5 * shape.pairs}, Flops{matmul}, Bytes{sizes.all_bytes()}};
  }
  if (type == "ExpertCombine")  // a multiply-add per choice
    return {Flops{2 * y * static_cast<double>(sizes.shape(1).back())}, {}, Bytes{sizes.all_bytes()}};
  if (type == "MaxPool" || type == "AveragePool" || type == "LpPool") {
    double window = 1;
    for (const std::int64_t extent : node.integers("kernel_shape")) window *= static_cast<double>(extent);
    return {Flops{y * window}, {}, Bytes{sizes.all_bytes()}};
  }
  if (type == "Gather" || type == "GatherElements" || type == "GatherND")
    return {{}, {}, Bytes{sizes.in_bytes(1) + 2 * sizes.out_bytes()}};
  if (type == "Dropout")
    return {Flops{2 * y}, {}, Bytes{sizes.in_bytes(0) + sizes.out_bytes() + static_cast<std::int64_t>(y) * mask_bytes}};
  if (type == "SoftmaxCrossEntropy" || type == "SoftmaxCrossEntropyLoss") {
    const double logits = sizes.in(0);  // logits are read, and written as log-probabilities; one more FLOP per label
    return {Flops{5 * logits + sizes.in(1)}, {}, Bytes{2 * sizes.in_bytes(0) + sizes.in_bytes(1) + sizes.out_bytes()}};
  }
  const double count = reduces(type) && sizes.has(0) ? sizes.in(0) : y;
  return {Flops{flops_per_element(type) * count}, {}, Bytes{type == "Shape" ? sizes.out_bytes() : sizes.all_bytes()}};
}

}  // namespace trainyard
