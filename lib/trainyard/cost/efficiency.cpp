#include "trainyard/cost/efficiency.hpp"

#include <algorithm>
#include <cassert>
#include <initializer_list>

namespace trainyard {
namespace {

// Matrix multiplications of training sizes. cuBLAS reaches about 0.9 of the float32 peak of a V100 and 0.75 of the TF32
// peak of an A100 on large square matrices; the narrow matrices of real layers lower the mean.
constexpr Efficiency kMatrix{0.70, 0.80};

// Convolutions: cuDNN reaches from 0.4 (1x1, few channels) to above 0.8 (3x3). With the memory shares below, 0.65 gives
// about 320 images/s for ResNet-50 training in float32 on a V100; published rates are 300 to 380.
constexpr Efficiency kConvolution{0.65, 0.75};

// Recurrent ops: one small matrix product after another, each waiting for the last; cuDNN LSTMs of 512 to 1024 units
// run at a third to a half of the peak.
constexpr Efficiency kRecurrent{0.40, 0.70};

// Elementwise kernels stream. Copy and triad benchmarks reach 0.90 to 0.93 of the data sheet's bandwidth on V100 and
// A100; kernels of a few megabytes reach less. They do not use matrix units, which are most of the peak since Ampere.
constexpr Efficiency kElementwise{0.10, 0.80};

// Normalizations: two passes over the data with a reduction in between; the cache serves part of the second pass.
constexpr Efficiency kNormalization{0.10, 0.70};

// Pooling: overlapping windows and outputs of another size, so reads are not fully contiguous.
constexpr Efficiency kPooling{0.10, 0.65};

// Copies with strides on one side.
constexpr Efficiency kMove{0.10, 0.70};

// Gathers: rows at random places, each contiguous; gradients scatter with atomic adds.
constexpr Efficiency kGather{0.10, 0.50};

// Unknown types: a mix of the above.
constexpr Efficiency kUnknown{0.30, 0.70};

}  // namespace

std::pair<std::string_view, std::string_view> forward_type(std::string_view type) {
  const std::size_t cut = std::min(type.find("Grad"), type.find("Backward"));
  if (cut == std::string_view::npos || cut == 0) return {type, {}};
  return {type.substr(0, cut), type.substr(cut)};
}

EfficiencyTable EfficiencyTable::standard() {
  EfficiencyTable table{kUnknown};
  const auto set_all = [&](Efficiency efficiency, std::initializer_list<std::string_view> types) {
    for (const std::string_view type : types) table.set(type, efficiency);
  };
  set_all(kMatrix, {"MatMul", "Gemm", "Linear", "Attention", "Einsum"});
  set_all(kConvolution, {"Conv", "ConvTranspose"});
  set_all(kRecurrent, {"LSTM", "GRU", "RNN"});
  set_all(kElementwise,
          {"Add",        "Sub",       "Mul",  "Div",   "Neg",         "Relu",     "LeakyRelu",  "Clip",
           "Sigmoid",    "Tanh",      "Gelu", "Erf",   "Exp",         "Log",      "Sqrt",       "Pow",
           "Abs",        "Sum",       "Mean", "Where", "Cast",        "Identity", "Dropout",    "HardSwish",
           "Softplus",   "Swish",     "Elu",  "Silu",  "HardSigmoid", "Max",      "Min",        "Selu",
           "AddSquares", "ClipScale", "Mish", "Celu",  "Sin",         "Cos",      "Reciprocal", "Softsign"});
  set_all(kNormalization,
          {"BatchNormalization", "LayerNormalization", "GroupNormalization", "InstanceNormalization", "BatchNorm",
           "LRN", "Softmax", "LogSoftmax", "SoftmaxCrossEntropy", "SoftmaxCrossEntropyLoss",
           "NegativeLogLikelihoodLoss", "ReduceMean", "ReduceSum", "ReduceMax", "SumToShape", "SquareSum"});
  set_all(kPooling, {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize"});
  set_all(kMove, {"Concat", "Split", "Slice", "Transpose", "Pad", "Expand", "Tile", "Reshape", "Flatten", "Stack"});
  set_all(kGather, {"Gather", "Embedding", "Scatter", "ScatterND", "GatherND", "GatherElements", "ScatterElements",
                    "ExpertSlots", "ExpertDispatch", "ExpertCombine"});
  return table;
}

void EfficiencyTable::set(std::string_view type, Efficiency efficiency) {
  assert(efficiency.compute > 0 && efficiency.compute <= 1 && efficiency.memory > 0 && efficiency.memory <= 1);
  types_.insert_or_assign(std::string{type}, efficiency);
}

Efficiency EfficiencyTable::of(std::string_view type) const {
  if (const auto own = types_.find(type); own != types_.end()) return own->second;
  if (const auto forward = types_.find(forward_type(type).first); forward != types_.end()) return forward->second;
  return otherwise_;
}

}  // namespace trainyard
