#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/model/model.hpp"
#include "trainyard/zoo/network.hpp"

namespace trainyard::zoo {

/// A convolution over [N, C, H, W].
struct Convolution {
  std::int64_t channels = 0;                    // of the output
  std::array<std::int64_t, 2> kernel = {1, 1};  // height, width
  std::int64_t stride = 1;
  std::array<std::int64_t, 2> padding = {0, 0};  // top and bottom, left and right
  std::int64_t groups = 1;
  bool bias = false;
};

/// A square pooling window over [N, C, H, W].
struct Pooling {
  std::int64_t kernel = 3;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
  bool ceil = false;          // the last window may extend beyond the edge
  bool count_padding = true;  // average only: padding zeros count in the mean
};

/// Weights of one LSTM layer that is built from basic operators: i, f, g, o = [x, h] W + b.
struct LstmCell {
  ValueId weight, bias;
  std::int64_t hidden = 0;
};

struct LstmState {
  ValueId hidden, cell;
};

/// Scaled dot-product attention. Queries and keys may be wider than values.
struct Attention {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;       // heads of keys and values, each shared by heads / kv_heads queries; 0: `heads`
  double dropout = 0;              // of the attention weights
  bool causal = false;             // later positions are masked
  ValueId bias = ValueId::none();  // added to the scores, broadcast to [B, heads, S, T]
  bool fused = false;              // one op that keeps no scores and has no dropout
};

/// A mixture of experts in place of a feed-forward layer. Each token goes to `chosen` of the experts.
struct Experts {
  /// How the weights of a token's experts follow from its logits, one per expert.
  enum class Router {
    softmax,         // the largest ones of the softmax over all (Switch)
    chosen_softmax,  // the softmax over the chosen ones (Mixtral)
    chosen_sigmoid,  // sigmoids of the chosen ones, divided by their sum, scaled; chosen with a bias that gradients do
                     // not train (DeepSeek-V3)
  };
  enum class Activation { relu, gelu, silu };

  std::int64_t experts = 8, chosen = 2;
  std::int64_t inner = 0;       // inner width of an expert
  std::int64_t capacity = 100;  // tokens per sample that an expert takes, in % of an even share; others are dropped
  bool gated = true;            // a second product, multiplied by the activated one
  Router router = Router::softmax;
  Activation activation = Activation::silu;
};

/// Appends common layers to a model node by node, with shapes inferred. Nodes are named LAYER/TYPE, with a number from
/// the second one of a type on. Parameters are named after their node (LAYER/conv.weight).
class LayerBuilder {
 public:
  explicit LayerBuilder(std::string name) { model_.name = std::move(name); }

  /// Sets the layer of the nodes that follow. `detail` ("t3", "attention") only goes into their names.
  void at(std::string layer, std::string_view detail = "");
  const std::string& layer() const { return layer_; }
  const Shape& shape(ValueId value) const { return model_.values[value].shape; }

  ValueId input(const std::string& name, Shape shape, DataType type = DataType::float32);
  /// A trained array of the current layer.
  ValueId parameter(const std::string& name, Shape shape);
  ValueId constant(std::vector<std::int64_t> contents);
  ValueId scalar_constant(std::int64_t contents);
  /// A literal number or mask whose contents do not affect any cost.
  ValueId opaque_constant(Shape shape, DataType type = DataType::float32);

  ValueId conv(ValueId x, const Convolution& how);
  ValueId batch_norm(ValueId x, double epsilon = 1e-5);
  ValueId relu(ValueId x) { return unary("Relu", x); }
  ValueId relu6(ValueId x);
  ValueId gelu(ValueId x, bool tanh_approximation = false);
  ValueId sigmoid(ValueId x) { return unary("Sigmoid", x); }
  ValueId silu(ValueId x) { return unary("Swish", x); }
  ValueId tanh(ValueId x) { return unary("Tanh", x); }
  ValueId softmax(ValueId x);
  ValueId dropout(ValueId x, double ratio);
  ValueId max_pool(ValueId x, const Pooling& how);
  ValueId average_pool(ValueId x, const Pooling& how);
  /// Average pooling to a map of `size` x `size`, or of the input's size if that is smaller.
  ValueId adaptive_average_pool(ValueId x, std::int64_t size);
  ValueId global_average_pool(ValueId x) { return unary("GlobalAveragePool", x); }
  ValueId flatten(ValueId x);
  /// x [M, K] times the transpose of weight [N, K], plus bias: the classifier of a convolutional network.
  ValueId gemm(ValueId x, std::int64_t outputs);
  /// The last dimension of x, which has any rank, times weight [K, N], plus bias.
  ValueId linear(ValueId x, std::int64_t outputs, bool bias = true);
  ValueId layer_norm(ValueId x, double epsilon = 1e-5);
  ValueId rms_norm(ValueId x, double epsilon = 1e-5);
  /// Rows of `table` [V, D], selected by the indices.
  ValueId embedding(ValueId table, ValueId indices) {
    return append("Gather", {table, indices}, {{"axis", std::int64_t{0}}});
  }
  /// x at `index` of dimension `axis`, which is removed.
  ValueId select(ValueId x, std::int64_t axis, std::int64_t index);

  ValueId add(ValueId a, ValueId b) { return append("Add", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return append("Mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return append("Div", {a, b}); }
  ValueId matmul(ValueId a, ValueId b) { return append("MatMul", {a, b}); }
  ValueId concat(const std::vector<ValueId>& parts, std::int64_t axis) {
    return append("Concat", parts, {{"axis", axis}});
  }
  std::vector<ValueId> split(ValueId x, std::int64_t axis, std::size_t parts);
  ValueId slice(ValueId x, std::int64_t axis, std::int64_t first, std::int64_t last);
  ValueId reshape(ValueId x, std::vector<std::int64_t> shape);
  ValueId transpose(ValueId x, std::vector<std::int64_t> order);
  ValueId unsqueeze(ValueId x, std::int64_t axis);
  ValueId squeeze(ValueId x, std::int64_t axis);
  /// Stacks values of one shape along a new axis.
  ValueId stack(const std::vector<ValueId>& parts, std::int64_t axis);

  /// Attention of q [B, S, heads d] over k [B, T, kv_heads d] and v [B, T, kv_heads d'].
  ValueId attention(ValueId q, ValueId k, ValueId v, const Attention& how);
  /// Rotary position embedding (Su et al., RoFormer, 2021) of x [B, S, D] in `heads` heads: rotates the halves of each
  /// head by the angles of their position, with cosines and sines [S, 1, D / heads].
  ValueId rotary(ValueId x, std::int64_t heads, ValueId cosines, ValueId sines);

  /// The k largest numbers of the last dimension, and their indices.
  std::pair<ValueId, ValueId> top_k(ValueId x, std::int64_t k);
  /// x [B, S, D] through a router, to the experts and back. Without the load-balancing loss.
  ValueId experts(ValueId x, const Experts& how);

  LstmCell lstm_cell(std::int64_t inputs, std::int64_t hidden);
  /// One step of the cell on x [B, I].
  LstmState lstm_step(const LstmCell& cell, ValueId x, LstmState state);

  ValueId unary(const std::string& type, ValueId x) { return append(type, {x}); }
  /// Appends any node. Its outputs have consecutive ids; returns the first.
  ValueId append(const std::string& type, std::vector<ValueId> inputs, std::map<std::string, Attribute> attributes = {},
                 std::size_t outputs = 1, const std::string& name = "");
  /// Name for the next node of this kind in the layer.
  std::string next_name(const std::string& kind);

  Model finish(const std::vector<ValueId>& outputs) &&;

 private:
  ValueId add_value(Value value);
  ValueId weights(std::string name, Shape shape);

  Model model_;
  std::string layer_, prefix_;
  std::map<std::string, int> uses_;
  std::map<std::vector<std::int64_t>, ValueId> constants_;
  std::map<std::int64_t, ValueId> scalars_;
};

/// The images of a step: [batch, channels, image, image].
inline ValueId image_input(LayerBuilder& net, const NetworkArguments& given, std::int64_t channels = 3) {
  return net.input("image", {given["batch"], channels, given["image"], given["image"]});
}

/// Throws InputError ("does-not-divide") unless the parameter `name` with `value` is a multiple of `divisor`, which is
/// the value of the parameter `divisor_name` if that is given.
void require_multiple(std::string_view name, std::int64_t value, std::int64_t divisor,
                      std::string_view divisor_name = "");

}  // namespace trainyard::zoo
