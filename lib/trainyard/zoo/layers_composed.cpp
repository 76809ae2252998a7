// Layers made of several nodes.

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

ValueId LayerBuilder::stack(const std::vector<ValueId>& parts, std::int64_t axis) {
  std::vector<ValueId> lifted;
  for (const ValueId part : parts) lifted.push_back(unsqueeze(part, axis));
  return concat(lifted, axis);
}

ValueId LayerBuilder::attention(ValueId q, ValueId k, ValueId v, const Attention& how) {
  const std::int64_t batch = shape(q)[0], queries = shape(q)[1], keys = shape(k)[1], width = shape(q)[2];
  const std::int64_t heads = how.heads, kv_heads = how.kv_heads > 0 ? how.kv_heads : heads;
  require_multiple("hidden", width, heads, "heads");
  require_multiple("heads", heads, kv_heads, "kv_heads");
  const std::int64_t depth = width / heads, value_depth = shape(v)[2] / kv_heads;
  if (how.fused) {
    q = transpose(reshape(q, {batch, queries, heads, depth}), {0, 2, 1, 3});
    k = transpose(reshape(k, {batch, keys, kv_heads, depth}), {0, 2, 1, 3});
    v = transpose(reshape(v, {batch, keys, kv_heads, value_depth}), {0, 2, 1, 3});
    std::vector<ValueId> operands{q, k, v};
    if (!how.bias.is_none()) operands.push_back(how.bias);
    const ValueId mixed = append("Attention", std::move(operands), {{"is_causal", std::int64_t{how.causal}}});
    return reshape(transpose(mixed, {0, 2, 1, 3}), {batch, queries, heads * value_depth});
  }
  // Heads that share keys are rows of one product: [B, kv_heads, heads / kv_heads x S, depth].
  const auto shared = [&](ValueId x, std::int64_t last) {
    return kv_heads == heads ? x : reshape(x, {batch, kv_heads, heads / kv_heads * queries, last});
  };
  const auto apart = [&](ValueId x, std::int64_t last) {
    return kv_heads == heads ? x : reshape(x, {batch, heads, queries, last});
  };
  q = shared(transpose(reshape(q, {batch, queries, heads, depth}), {0, 2, 1, 3}), depth);
  k = transpose(reshape(k, {batch, keys, kv_heads, depth}), {0, 2, 3, 1});
  v = transpose(reshape(v, {batch, keys, kv_heads, value_depth}), {0, 2, 1, 3});
  ValueId scores = apart(div(matmul(q, k), opaque_constant({})), keys);
  if (!how.bias.is_none()) scores = add(scores, how.bias);
  if (how.causal)
    scores = append("Where", {opaque_constant({1, 1, queries, keys}, DataType::boolean), scores, opaque_constant({})});
  const ValueId weights = dropout(softmax(scores), how.dropout);
  const ValueId mixed = apart(matmul(shared(weights, keys), v), value_depth);
  return reshape(transpose(mixed, {0, 2, 1, 3}), {batch, queries, heads * value_depth});
}

ValueId LayerBuilder::rotary(ValueId x, std::int64_t heads, ValueId cosines, ValueId sines) {
  const std::int64_t batch = shape(x)[0], positions = shape(x)[1], width = shape(x)[2];
  require_multiple("hidden", width, 2 * heads);
  const std::int64_t depth = width / heads;
  x = reshape(x, {batch, positions, heads, depth});
  const auto halves = split(x, 3, 2);
  const ValueId turned = concat({unary("Neg", halves[1]), halves[0]}, 3);
  // One node per statement, here and in all networks: C++ leaves the order open in which arguments are evaluated.
  const ValueId across = mul(turned, sines);
  return reshape(add(mul(x, cosines), across), {batch, positions, width});
}

std::pair<ValueId, ValueId> LayerBuilder::top_k(ValueId x, std::int64_t k) {
  const ValueId values = append("TopK", {x, constant({k})}, {{"axis", std::int64_t{-1}}}, 2, next_name("top_k"));
  return {values, ValueId{values.index() + 1}};
}

ValueId LayerBuilder::experts(ValueId x, const Experts& how) {
  const std::int64_t tokens = shape(x)[1], width = shape(x)[2];
  if (how.chosen > how.experts)
    refuse("range", fmt::format("chosen={} is more than experts={}", how.chosen, how.experts),
           "a token goes to each expert at most once");
  const ValueId logits = linear(x, how.experts, false);
  ValueId weights, chosen;
  if (how.router == Experts::Router::softmax) {
    std::tie(weights, chosen) = top_k(softmax(logits), how.chosen);
  } else if (how.router == Experts::Router::chosen_softmax) {
    std::tie(weights, chosen) = top_k(logits, how.chosen);
    weights = softmax(weights);
  } else {
    const ValueId scores = sigmoid(logits);
    const ValueId biased = add(scores, parameter("balance", {how.experts}));
    chosen = top_k(biased, how.chosen).second;
    weights = append("GatherElements", {scores, chosen}, {{"axis", std::int64_t{-1}}});
    const ValueId sum = append("ReduceSum", {weights, constant({-1})}, {{"keepdims", std::int64_t{1}}});
    const ValueId shares = div(weights, sum);
    weights = mul(shares, opaque_constant({}));  // times the scale
  }
  const std::int64_t share = how.chosen * tokens * how.capacity, places = 100 * how.experts;
  const std::map<std::string, Attribute> sizes{{"experts", how.experts}, {"capacity", (share + places - 1) / places}};
  const ValueId slots = append("ExpertSlots", {chosen}, sizes, 1, next_name("slots"));
  const ValueId rows = append("ExpertDispatch", {x, slots}, sizes, 1, next_name("dispatch"));
  const auto product = [&](ValueId of, std::int64_t inner, std::int64_t outer) {
    const std::string name = next_name("experts");
    const ValueId weight = this->weights(name + ".weight", {how.experts, inner, outer});
    return append("MatMul", {of, weight}, {}, 1, name);
  };
  ValueId wide = product(rows, width, how.inner);
  wide = how.activation == Experts::Activation::relu   ? relu(wide)
         : how.activation == Experts::Activation::gelu ? gelu(wide, true)
                                                       : silu(wide);
  if (how.gated) wide = mul(wide, product(rows, width, how.inner));
  const ValueId made = product(wide, how.inner, width);
  return append("ExpertCombine", {made, weights, slots}, {}, 1, next_name("combine"));
}

LstmCell LayerBuilder::lstm_cell(std::int64_t inputs, std::int64_t hidden) {
  return {.weight = parameter("weight", {4 * hidden, inputs + hidden}),
          .bias = parameter("bias", {4 * hidden}),
          .hidden = hidden};
}

LstmState LayerBuilder::lstm_step(const LstmCell& cell, ValueId x, LstmState state) {
  const ValueId gates =
      append("Gemm", {concat({x, state.hidden}, 1), cell.weight, cell.bias}, {{"transB", std::int64_t{1}}});
  const std::vector<ValueId> gate = split(gates, 1, 4);  // i, f, g, o
  const ValueId kept = mul(sigmoid(gate[1]), state.cell);
  const ValueId change = tanh(gate[2]);
  const ValueId memory = add(kept, mul(sigmoid(gate[0]), change));
  const ValueId shown = tanh(memory);
  return {.hidden = mul(sigmoid(gate[3]), shown), .cell = memory};
}

void require_multiple(std::string_view name, std::int64_t value, std::int64_t divisor, std::string_view divisor_name) {
  if (value % divisor == 0) return;
  const std::string what =
      divisor_name.empty() ? fmt::format("{}", divisor) : fmt::format("{}={}", divisor_name, divisor);
  const std::int64_t below = value - value % divisor;
  refuse("does-not-divide", fmt::format("{}={} is not a multiple of {}", name, value, what),
         below > 0 ? fmt::format("the nearest multiples are {} and {}", below, below + divisor)
                   : fmt::format("the smallest multiple is {}", divisor));
}

}  // namespace trainyard::zoo
