// Layers made of several nodes.

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

ValueId LayerBuilder::stack(const std::vector<ValueId>& parts, std::int64_t axis) {
  std::vector<ValueId> lifted;
  for (const ValueId part : parts) lifted.push_back(unsqueeze(part, axis));
  return concat(lifted, axis);
}

ValueId LayerBuilder::attention(ValueId q, ValueId k, ValueId v, std::int64_t heads, double ratio, bool causal) {
  const std::int64_t batch = shape(q)[0], queries = shape(q)[1], keys = shape(k)[1], width = shape(q)[2];
  require_multiple("hidden", width, heads, "heads");
  const std::int64_t depth = width / heads;
  q = transpose(reshape(q, {batch, queries, heads, depth}), {0, 2, 1, 3});
  k = transpose(reshape(k, {batch, keys, heads, depth}), {0, 2, 3, 1});
  v = transpose(reshape(v, {batch, keys, heads, depth}), {0, 2, 1, 3});
  ValueId scores = div(matmul(q, k), opaque_constant({}));
  if (causal)
    scores = append("Where", {opaque_constant({1, 1, queries, keys}, DataType::boolean), scores, opaque_constant({})});
  const ValueId weights = dropout(softmax(scores), ratio);
  return reshape(transpose(matmul(weights, v), {0, 2, 1, 3}), {batch, queries, width});
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
  const ValueId written = mul(sigmoid(gate[0]), tanh(gate[2]));
  const ValueId memory = add(kept, written);
  return {.hidden = mul(sigmoid(gate[3]), tanh(memory)), .cell = memory};
}

void require_multiple(std::string_view name, std::int64_t value, std::int64_t divisor, std::string_view divisor_name) {
  if (value % divisor == 0) return;
  const std::string what =
      divisor_name.empty() ? fmt::format("{}", divisor) : fmt::format("{}={}", divisor_name, divisor);
  const std::int64_t below = value - value % divisor;
  throw InputError(Finding{.code = "does-not-divide",
                           .message = fmt::format("{}={} is not a multiple of {}", name, value, what),
                           .help = below > 0
                                       ? fmt::format("the nearest multiples are {} and {}", below, below + divisor)
                                       : fmt::format("the least multiple is {}", divisor)});
}

}  // namespace trainyard::zoo
