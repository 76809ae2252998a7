#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "profiler/kernels/cpu/arrays.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/model/op_kind.hpp"
#include "trainyard/model/shape_inference.hpp"
#include "trainyard/training/backward_rules.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// One operator on small arrays. `wanted` are the inputs whose gradients are checked.
struct Case {
  std::string type;
  std::vector<Shape> inputs;
  std::vector<std::size_t> wanted;
  std::map<std::string, Attribute> attributes = {};
  std::map<std::size_t, std::vector<std::int64_t>> contents = {};  // values of whole-number inputs
  double least = -1, most = 1;                                     // range of the other inputs
  std::size_t outputs = 1;
};

using Whole = std::vector<std::int64_t>;

std::vector<Case> cases() {
  const Whole two{2, 2}, one_pad{1, 1, 1, 1};
  std::vector<Case> all{
      {"Conv", {{2, 4, 5, 5}, {6, 4, 3, 3}, {6}}, {0, 1, 2}, {{"pads", one_pad}, {"strides", two}}},
      {"Conv", {{2, 4, 5, 5}, {4, 1, 3, 3}}, {0, 1}, {{"group", std::int64_t{4}}, {"dilations", two}}},
      {"Conv", {{2, 4, 6}, {6, 2, 3}}, {0, 1}, {{"group", std::int64_t{2}}, {"auto_pad", std::string{"SAME_UPPER"}}}},
      {"Conv", {{1, 3, 4, 4}, {5, 3, 1, 1}}, {0, 1}},
      {"ConvTranspose", {{2, 4, 3, 3}, {4, 3, 3, 3}, {3}}, {0, 1, 2}, {{"strides", two}, {"pads", one_pad}}},
      {"Gemm", {{3, 4}, {4, 5}, {5}}, {0, 1, 2}, {{"alpha", 0.5}, {"beta", 2.0}}},
      {"Gemm", {{4, 3}, {5, 4}, {3, 1}}, {0, 1, 2}, {{"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}}},
      {"Linear", {{2, 3, 4}, {4, 5}, {5}}, {0, 1, 2}},
      {"MatMul", {{2, 3, 4}, {2, 4, 5}}, {0, 1}},
      {"MatMul", {{2, 1, 3, 4}, {3, 4, 2}}, {0, 1}},
      {"BatchNormalization", {{3, 2, 4}, {2}, {2}, {2}, {2}}, {0, 1, 2}, {{"training_mode", std::int64_t{1}}}},
      {"BatchNormalization",
       {{3, 2, 4}, {2}, {2}, {2}, {2}},
       {0, 1, 2},
       {{"training_mode", std::int64_t{0}}},
       {},
       0.5,
       1.5},
      {"LayerNormalization", {{3, 5}, {5}, {5}}, {0, 1, 2}},
      {"InstanceNormalization", {{2, 3, 4}, {3}, {3}}, {0, 1, 2}},
      {"GroupNormalization", {{2, 4, 3}, {4}, {4}}, {0, 1, 2}, {{"num_groups", std::int64_t{2}}}},
      {"LRN", {{2, 5, 2, 2}}, {0}, {{"size", std::int64_t{3}}, {"alpha", 0.5}}},
      {"MaxPool", {{2, 2, 5, 5}}, {0}, {{"kernel_shape", Whole{3, 3}}, {"strides", two}, {"pads", one_pad}}},
      {"AveragePool", {{2, 2, 5, 5}}, {0}, {{"kernel_shape", Whole{3, 3}}, {"strides", two}, {"pads", one_pad}}},
      {"AveragePool",
       {{2, 2, 5, 5}},
       {0},
       {{"kernel_shape", two}, {"strides", two}, {"pads", one_pad}, {"count_include_pad", std::int64_t{1}}}},
      {"GlobalAveragePool", {{2, 3, 4, 4}}, {0}},
      {"GlobalMaxPool", {{2, 3, 4, 4}}, {0}},
      {"Softmax", {{3, 5}}, {0}},
      {"Softmax", {{3, 5, 2}}, {0}, {{"axis", std::int64_t{1}}}},
      {"LogSoftmax", {{3, 5}}, {0}},
      {"SoftmaxCrossEntropy", {{3, 5}, {3}}, {0}, {}, {{1, {0, 4, 2}}}},
      {"Dropout", {{40}}, {0}, {{"ratio", 0.3}}},
      {"Gather", {{5, 3}, {4}}, {0}, {{"axis", std::int64_t{0}}}, {{1, {4, 0, 4, 1}}}},
      {"GatherElements", {{3, 4}, {3, 2}}, {0}, {{"axis", std::int64_t{1}}}, {{1, {0, 3, 1, 1, 2, 0}}}},
      {"Add", {{3, 4}, {4}}, {1}},
      {"Sub", {{3, 4}, {3, 1}}, {1}},
      {"Mul", {{3, 4}, {3, 4}}, {0, 1}},
      {"Mul", {{2, 3, 4}, {3, 1}}, {0, 1}},
      {"Div", {{3, 4}, {4}}, {0, 1}, {}, {}, 0.5, 2},
      {"Pow", {{3, 4}, {1}}, {0}, {}, {}, 0.5, 2},
      {"Where", {{3, 4}, {3, 4}, {4}}, {1, 2}, {}, {{0, {1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 0}}}},
      {"Max", {{3, 4}, {4}}, {0, 1}},
      {"Min", {{3, 4}, {3, 4}}, {0, 1}},
      {"Mean", {{3, 4}, {4}}, {1}},
      {"PRelu", {{3, 4}, {4}}, {0, 1}},
      {"ReduceMean", {{3, 4, 2}}, {0}, {{"axes", Whole{1}}}},
      {"ReduceSum", {{3, 4, 2}}, {0}, {{"keepdims", std::int64_t{0}}}},
      {"ReduceMax", {{3, 4}}, {0}, {{"axes", Whole{1}}}},
      {"ReduceMin", {{3, 4}}, {0}, {{"axes", Whole{0}}}},
      {"ReduceProd", {{3, 4}}, {0}, {{"axes", Whole{0}}}, {}, 0.5, 2},
      {"ReduceSumSquare", {{3, 4}}, {0}, {{"axes", Whole{1}}}},
      {"ReduceLogSumExp", {{3, 4}}, {0}, {{"axes", Whole{1}}}},
      {"Pad", {{2, 3}, {4}}, {0}, {}, {{1, {1, 0, 0, 2}}}},
      {"Pad", {{2, 4}, {4}}, {0}, {{"mode", std::string{"reflect"}}}, {{1, {0, 2, 1, 1}}}},
      {"Pad", {{2, 3}, {4}}, {0}, {{"mode", std::string{"reflect"}}}, {{1, {0, 5, 0, 7}}}},
      {"Tile", {{2, 3}, {2}}, {0}, {}, {{1, {2, 3}}}},
      {"DepthToSpace", {{1, 8, 2, 3}}, {0}, {{"blocksize", std::int64_t{2}}}},
      {"SpaceToDepth", {{1, 2, 4, 6}}, {0}, {{"blocksize", std::int64_t{2}}}},
      {"CumSum", {{3, 4}, {1}}, {0}, {}, {{1, {1}}}},
      {"LSTM",
       {{3, 2, 4}, {1, 12, 4}, {1, 12, 3}, {1, 24}},
       {0, 1, 2, 3},
       {{"hidden_size", std::int64_t{3}}},
       {},
       -1,
       1,
       3},
      {"LSTM",
       {{3, 2, 4}, {2, 12, 4}, {2, 12, 3}, {2, 24}},
       {0, 1, 2, 3},
       {{"hidden_size", std::int64_t{3}}, {"direction", std::string{"bidirectional"}}},
       {},
       -1,
       1,
       3},
      {"GRU",
       {{3, 2, 4}, {1, 9, 4}, {1, 9, 3}, {1, 18}},
       {0, 1, 2, 3},
       {{"hidden_size", std::int64_t{3}}},
       {},
       -1,
       1,
       2},
      {"GRU",
       {{3, 2, 4}, {2, 9, 4}, {2, 9, 3}, {2, 18}},
       {0, 1, 2, 3},
       {{"hidden_size", std::int64_t{3}},
        {"direction", std::string{"bidirectional"}},
        {"linear_before_reset", std::int64_t{1}}},
       {},
       -1,
       1,
       2},
      {"RNN",
       {{3, 2, 4}, {1, 3, 4}, {1, 3, 3}, {1, 6}},
       {0, 1, 2, 3},
       {{"hidden_size", std::int64_t{3}}},
       {},
       -1,
       1,
       2},
      {"RNN",
       {{3, 2, 4}, {1, 3, 4}, {1, 3, 3}},
       {0, 1, 2},
       {{"hidden_size", std::int64_t{3}},
        {"direction", std::string{"reverse"}},
        {"activations", std::vector<std::string>{"Relu"}}},
       {},
       -1,
       1,
       2},
      {"Einsum", {{3, 4}, {4, 5}}, {0, 1}, {{"equation", std::string{"ij,jk->ik"}}}},
      {"Einsum", {{2, 3, 4, 2}, {2, 5, 4, 2}}, {0, 1}, {{"equation", std::string{"bqhd,bkhd->bhqk"}}}},
      {"Einsum", {{2, 3, 4}, {4, 5}}, {0, 1}, {{"equation", std::string{"...i,ij->...j"}}}},
      {"Einsum", {{3, 3}}, {0}, {{"equation", std::string{"ii->i"}}}},
      {"Einsum", {{3, 4}, {3, 2}}, {0, 1}, {{"equation", std::string{"ij,ik->k"}}}},
      {"Einsum", {{3, 4}, {4}, {3}}, {0, 1, 2}, {{"equation", std::string{"ij,j,i"}}}},
      {"Attention", {{2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}}, {0, 1, 2}},
      {"Attention",
       {{1, 3, 8}, {1, 3, 4}, {1, 3, 4}},
       {0, 1, 2},
       {{"q_num_heads", std::int64_t{4}}, {"kv_num_heads", std::int64_t{2}}, {"is_causal", std::int64_t{1}}}},
      {"Attention", {{2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}, {1, 2, 3, 5}}, {0, 1, 2, 3}},
      {"Attention", {{2, 2, 3, 4}, {2, 1, 3, 4}, {2, 1, 3, 3}, {3}}, {0, 3}, {{"is_causal", std::int64_t{1}}}},
      {"ExpertDispatch",
       {{2, 3, 4}, {2, 3, 2}},
       {0},
       {{"experts", std::int64_t{3}}, {"capacity", std::int64_t{2}}},
       {{1, {0, 4, 5, 1, -1, 8, 2, 10, 6, 3, 7, -1}}}},
      {"ExpertCombine", {{3, 4, 4}, {2, 3, 2}, {2, 3, 2}}, {0, 1}, {}, {{2, {0, 4, 5, 1, -1, 8, 2, 10, 6, 3, 7, -1}}}},
      {"Resize",
       {{1, 2, 3, 4}, {0}, {0}, {4}},
       {0},
       {{"mode", std::string{"linear"}}},
       {{1, {}}, {2, {}}, {3, {1, 2, 5, 7}}}},
      {"Resize",
       {{1, 1, 4, 4}, {0}, {0}, {4}},
       {0},
       {{"mode", std::string{"cubic"}}, {"coordinate_transformation_mode", std::string{"align_corners"}}},
       {{1, {}}, {2, {}}, {3, {1, 1, 6, 3}}}},
      {"Resize", {{1, 2, 3, 3}, {0}, {0}, {4}}, {0}, {}, {{1, {}}, {2, {}}, {3, {1, 2, 6, 6}}}},
      {"LpNormalization", {{3, 5}}, {0}},
      {"LpNormalization", {{3, 5, 2}}, {0}, {{"axis", std::int64_t{1}}, {"p", std::int64_t{1}}}, {}, 0.2, 1},
      {"MeanVarianceNormalization", {{2, 3, 4, 2}}, {0}},
      {"GlobalLpPool", {{2, 3, 4, 2}}, {0}, {{"p", std::int64_t{3}}}, {}, 0.2, 1},
      {"LpPool", {{1, 2, 4, 4}}, {0}, {{"kernel_shape", two}, {"strides", two}}, {}, 0.2, 1},
      {"ReverseSequence", {{4, 3, 2}, {3}}, {0}, {}, {{1, {2, 4, 1}}}},
      {"RMSNormalization", {{3, 5}, {5}}, {0, 1}},
      {"TopK", {{3, 6}, {1}}, {0}, {}, {{1, {2}}}, -1, 1, 2},
      {"ScatterElements", {{4, 3}, {2, 3}, {2, 3}}, {0, 2}, {}, {{1, {0, 2, 1, 3, 1, 0}}}},
      {"Trilu", {{4, 4}}, {0}},
      {"ReduceL1", {{3, 4}}, {0}, {{"axes", Whole{1}}}, {}, 0.2, 1},
      {"ReduceL2", {{3, 4}}, {0}, {{"axes", Whole{1}}}},
      {"ReduceLogSum", {{3, 4}}, {0}, {{"axes", Whole{1}}}, {}, 0.5, 2},
      {"Sum", {{3, 4}, {4}, {3, 4}}, {1}},
      {"GatherND", {{3, 4}, {2, 1}}, {0}, {}, {{1, {2, 0}}}},
      {"GatherND", {{3, 4}, {2, 0}}, {0}, {}, {{1, {}}}},
  };
  for (const char* type : {"Relu",     "Sigmoid",     "Tanh",      "Exp",  "LeakyRelu", "Elu", "Celu",
                           "Selu",     "HardSigmoid", "HardSwish", "Gelu", "Erf",       "Abs", "Neg",
                           "Softplus", "Softsign",    "Swish",     "Mish", "Sin",       "Cos", "ThresholdedRelu"})
    all.push_back({type, {{4, 5}}, {0}});
  for (const char* type : {"Sqrt", "Log", "Reciprocal"}) all.push_back({type, {{4, 5}}, {0}, {}, {}, 0.5, 2});
  return all;
}

/// An operator with its arrays, ready for forward and backward.
struct Bench {
  Model model;
  std::vector<std::vector<float>> in, out, dy, dx;
  std::vector<std::vector<std::byte>> extra;
  const cpu::OpKernels* kernels;

  explicit Bench(const Case& what) : kernels(cpu::find_kernels(what.type)) {
    Random random{7};
    Node node{.name = "n", .type = what.type, .inputs = {}, .outputs = {}, .attributes = what.attributes};
    for (std::size_t i = 0; i < what.inputs.size(); ++i) {
      const bool whole = what.contents.count(i) > 0;
      Value value{.name = "x" + std::to_string(i),
                  .type = whole ? DataType::int64 : DataType::float32,
                  .shape = what.inputs[i],
                  .shape_known = true,
                  .role = Value::Role::input};
      if (whole) value.integers = what.contents.at(i), value.contents_known = true;
      if (what.type == "Where" && i == 0) value.type = DataType::boolean, value.contents_known = false;
      node.inputs.push_back(ValueId{model.values.size()});
      in.emplace_back(static_cast<std::size_t>(elements(value.shape)));
      for (std::size_t k = 0; k < in.back().size(); ++k)
        in.back()[k] = whole ? static_cast<float>(what.contents.at(i)[k])
                             : static_cast<float>(what.least + (what.most - what.least) * random.uniform());
      model.values.push_back(value);
    }
    for (std::size_t i = 0; i < what.outputs; ++i) {
      node.outputs.push_back(ValueId{model.values.size()});
      model.values.push_back({.name = "y" + std::to_string(i)});
    }
    model.nodes.push_back(node);
    infer_shapes(model);
    for (const ValueId output : node.outputs) {
      const auto count = static_cast<std::size_t>(elements(model.values[output].shape));
      out.emplace_back(count);
      dy.emplace_back(count);
      for (float& g : dy.back()) g = static_cast<float>(random.uniform() - 0.3);
    }
    std::vector<bool> wanted(what.inputs.size(), false);
    for (const std::size_t i : what.wanted) wanted[i] = true;
    for (const SavedExtra& each : backward_rule(model, node, wanted, {}).extras)
      extra.emplace_back(static_cast<std::size_t>(each.bytes));
    for (const auto& x : in) dx.emplace_back(x.size());
  }

  const Node& node() const { return model.nodes[NodeId{0}]; }
  cpu::Array array(std::vector<float>& data, ValueId id) { return {data.data(), &model.values[id].shape}; }
  cpu::OpArrays arrays() {
    cpu::OpArrays a{.model = model, .node = node(), .in = {}, .out = {}, .dy = {}, .dx = {}};
    for (std::size_t i = 0; i < in.size(); ++i) a.in.push_back(array(in[i], node().inputs[i]));
    for (std::size_t i = 0; i < out.size(); ++i) a.out.push_back(array(out[i], node().outputs[i]));
    for (auto& each : extra) a.extra.push_back(each.data());
    a.seed = 11;
    return a;
  }
  void forward() {
    cpu::Scratch::reset();
    cpu::OpArrays a = arrays();
    kernels->forward(a);
  }
  /// The function that is differentiated: the sum of all outputs times dy.
  double objective() {
    forward();
    double sum = 0;
    for (std::size_t o = 0; o < out.size(); ++o)
      for (std::size_t i = 0; i < out[o].size(); ++i)
        sum += static_cast<double>(out[o][i]) * static_cast<double>(dy[o][i]);
    return sum;
  }
  /// Runs the backward kernel with only the arrays that the backward rule reads.
  void backward(const Case& what) {
    cpu::Scratch::reset();
    std::vector<bool> wanted(what.inputs.size(), false);
    for (const std::size_t i : what.wanted) wanted[i] = true;
    const BackwardRule rule = backward_rule(model, node(), wanted, {});
    cpu::OpArrays a = arrays();
    const auto reads = [&](ValueId id) {
      for (const GradientPiece& piece : rule.pieces)
        if (std::find(piece.reads.begin(), piece.reads.end(), id) != piece.reads.end()) return true;
      return what.type == "BatchNormalization" && id.index() >= 3;  // running statistics are state, not tensors to read
    };
    for (std::size_t i = 0; i < in.size(); ++i)
      if (!reads(node().inputs[i]) && what.contents.count(i) == 0) a.in[i] = {};
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!reads(node().outputs[i])) a.out[i] = {};
    for (std::size_t i = 0; i < out.size(); ++i) a.dy.push_back(array(dy[i], node().outputs[i]));
    a.dx.resize(in.size());
    for (const std::size_t i : what.wanted) a.dx[i] = array(dx[i], node().inputs[i]);
    kernels->backward(a);
  }
};

}  // namespace

TEST_CASE("every gradient is what finite differences say, from no more than its backward rule reads") {
  for (const Case& what : cases()) {
    CAPTURE(what.type);
    Bench bench{what};
    CHECK(cpu::why_not(bench.model, bench.node()).empty());
    REQUIRE(bench.kernels != nullptr);
    REQUIRE((bench.kernels->backward != nullptr));
    bench.forward();
    bench.backward(what);
    for (const std::size_t i : what.wanted) {
      CAPTURE(i);
      for (std::size_t k = 0; k < bench.in[i].size(); ++k) {
        const float x = bench.in[i][k], step = 4e-3F;
        bench.in[i][k] = x + step;
        const double above = bench.objective();
        bench.in[i][k] = x - step;
        const double below = bench.objective();
        bench.in[i][k] = x;
        const double expected = (above - below) / (2 * static_cast<double>(step));
        const auto got = static_cast<double>(bench.dx[i][k]);
        CHECK_MESSAGE(
            std::abs(got - expected) <= 0.02 + 0.02 * std::abs(expected),
            what.type << " input " << i << " element " << k << ": " << got << ", differences say " << expected);
      }
    }
  }
}

TEST_CASE("a linear resize to twice the size, by hand") {
  // ONNX's own example: 1 2 / 3 4 with half_pixel. The first row becomes 1, 1.25, 1.75, 2.
  const Case what{"Resize",
                  {{1, 1, 2, 2}, {0}, {0}, {4}},
                  {0},
                  {{"mode", std::string{"linear"}}},
                  {{1, {}}, {2, {}}, {3, {1, 1, 4, 4}}}};
  Bench bench{what};
  bench.in[0] = {1, 2, 3, 4};
  bench.forward();
  const std::vector<float> expected{1,    1.25F, 1.75F, 2,    1.5F, 1.75F, 2.25F, 2.5F,
                                    2.5F, 2.75F, 3.25F, 3.5F, 3,    3.25F, 3.75F, 4};
  CHECK(bench.out[0] == expected);
}

TEST_CASE("an expert that is full drops second choices first, and later tokens") {
  // The first choices of 4 tokens are 0 0 0 1, the second ones 1 1 2 0. Expert 0 takes tokens 0 and 1; expert 1 takes
  // token 3, then token 0; expert 2 takes token 2.
  Bench bench{{"ExpertSlots",
               {{1, 4, 2}},
               {},
               {{"experts", std::int64_t{3}}, {"capacity", std::int64_t{2}}},
               {{0, {0, 1, 0, 1, 0, 2, 1, 0}}}}};
  bench.forward();
  CHECK(bench.out[0] == std::vector<float>{0, 3, 1, -1, -1, 4, 2, -1});
}

TEST_CASE("integers are divided towards 0, and a remainder has the sign of the divisor, or with fmod of the dividend") {
  const auto result = [](const char* type, std::map<std::string, Attribute> attributes) {
    Bench bench{{type, {{2}, {2}}, {}, std::move(attributes), {{0, {-7, 7}}, {1, {2, -2}}}}};
    bench.forward();
    return bench.out[0];
  };
  CHECK(result("Div", {}) == std::vector<float>{-3, -3});
  CHECK(result("Mod", {}) == std::vector<float>{1, -1});                           // floored: -7 = -4 * 2 + 1
  CHECK(result("Mod", {{"fmod", std::int64_t{1}}}) == std::vector<float>{-1, 1});  // truncated: -7 = -3 * 2 - 1
}

TEST_CASE("a product's gradient is made of the other elements, even where some are 0") {
  const Case what{"ReduceProd", {{3, 3}}, {0}, {{"axes", Whole{1}}}};
  Bench bench{what};
  bench.in[0] = {2, 3, 4, /**/ 0, 3, 4, /**/ 0, 0, 5};
  bench.dy[0] = {1, 2, 3};
  bench.backward(what);
  CHECK(bench.dx[0] == std::vector<float>{12, 8, 6, /**/ 24, 0, 0, /**/ 0, 0, 0});  // 3 * 4, 2 * 4, 2 * 3; 2 * 3 * 4
}

TEST_CASE("ReduceLogSumExp takes numbers whose exponentials overflow or vanish") {
  const Case what{"ReduceLogSumExp", {{3, 2}}, {0}, {{"axes", Whole{1}}}};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Bench bench{what};
  bench.in[0] = {1000, 1000, /**/ -1000, -1000, /**/ -kInfinity, 1};
  bench.dy[0] = {2, 4, 8};
  bench.forward();
  bench.backward(what);
  CHECK(bench.out[0][0] == doctest::Approx(1000 + std::log(2)));
  CHECK(bench.out[0][1] == doctest::Approx(-1000 + std::log(2)));
  CHECK(bench.out[0][2] == 1);
  CHECK(bench.dx[0] == std::vector<float>{1, 1, /**/ 2, 2, /**/ 0, 8});
  bench.in[0] = std::vector<float>(6, -kInfinity);
  bench.forward();
  CHECK(bench.out[0] == std::vector<float>(3, -kInfinity));  // the log of 0
}

TEST_CASE("a line of zeros has no ReduceL2 gradient") {
  const Case what{"ReduceL2", {{2, 2}}, {0}, {{"axes", Whole{1}}}};
  Bench bench{what};
  bench.in[0] = {0, 0, 3, 4};
  bench.dy[0] = {1, 5};
  bench.backward(what);
  CHECK(bench.dx[0] == std::vector<float>{0, 0, 3, 4});  // 5 * 3 / 5, 5 * 4 / 5
}

TEST_CASE("IsInf says which infinity it is asked for") {
  const auto result = [](std::map<std::string, Attribute> attributes) {
    Bench bench{{"IsInf", {{3}}, {}, std::move(attributes)}};
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    bench.in[0] = {-kInfinity, 1, kInfinity};
    bench.forward();
    return bench.out[0];
  };
  CHECK(result({}) == std::vector<float>{1, 0, 1});
  CHECK(result({{"detect_positive", std::int64_t{0}}}) == std::vector<float>{1, 0, 0});
  CHECK(result({{"detect_negative", std::int64_t{0}}}) == std::vector<float>{0, 0, 1});
}

TEST_CASE("padding by more than the extent mirrors to and fro") {
  Bench bench{{"Pad", {{3}, {2}}, {}, {{"mode", std::string{"reflect"}}}, {{1, {5, 4}}}}};
  bench.in[0] = {1, 2, 3};
  bench.forward();
  CHECK(bench.out[0] == std::vector<float>{2, 1, 2, 3, 2, /**/ 1, 2, 3, /**/ 2, 1, 2, 3});
}

TEST_CASE("what an operator is asked for and its kernel does not do is told before anything runs") {
  Model model;
  const auto why = [&model](Node node, const std::vector<Shape>& inputs = {}) {
    for (const Shape& shape : inputs) {
      node.inputs.push_back(ValueId{model.values.size()});
      model.values.push_back({.name = "x", .shape = shape, .shape_known = true});
    }
    return cpu::why_not(model, node);
  };
  Node node{.name = "n", .type = "LSTM"};
  CHECK(why(node).empty());
  node.attributes["activations"] = std::vector<std::string>{"Sigmoid", "Relu", "Tanh"};
  CHECK(why(node) == "with the activation Relu");
  node = {.name = "n", .type = "Resize", .inputs = {}, .outputs = {}, .attributes = {{"antialias", std::int64_t{1}}}};
  CHECK(why(node) == "with antialias");
  node = {.name = "n", .type = "MaxPool", .inputs = {}, .outputs = {ValueId{0}}, .attributes = {}};
  node.attributes["storage_order"] = std::int64_t{1};
  CHECK(why(node).empty());  // without positions it changes nothing
  node.outputs.push_back(ValueId{1});
  CHECK(why(node) == "with storage_order 1");

  // Kernels align trailing dimensions, so a slope for each channel has the shape [8, 1, 1].
  node = {.name = "n", .type = "PRelu"};
  CHECK(why(node, {{2, 8, 4, 4}, {8, 1, 1}}).empty());
  CHECK(why(node, {{2, 8, 4, 4}, {8}}) == "with one slope per channel and no dimensions after the channels");
  node = {.name = "n", .type = "Add", .inputs = {}, .outputs = {}, .attributes = {{"broadcast", std::int64_t{1}}}};
  CHECK(why(node, {{2, 8, 4}, {8, 4}}).empty());
  node.attributes["axis"] = std::int64_t{1};
  CHECK(why(node, {{2, 8, 4}, {8, 4}}).empty());  // axis 1 of 3: the trailing dimensions
  CHECK(why(node, {{2, 8, 4}, {8}}) == "with operands aligned at an axis");

  node = {.name = "n", .type = "SoftmaxCrossEntropyLoss"};
  CHECK(why(node, {{4, 3}, {4}}).empty());
  CHECK(why(node, {{4, 3}, {4}, {3}}) == "with class weights");
  node = {.name = "n", .type = "ScatterND", .inputs = {}, .outputs = {}, .attributes = {}};
  node.attributes["reduction"] = std::string{"add"};
  CHECK(why(node).empty());
  node.attributes["reduction"] = std::string{"max"};
  CHECK(why(node) == "with the reduction max");
}

TEST_CASE("every operator of the built-in networks runs on the cpu backend") {
  for (const Network& network : networks()) {
    const Model model = make_network(network.name);
    for (const Node& node : model.nodes) {
      if (node.type == "Constant" || is_view(model, node)) continue;
      CAPTURE(network.name);
      CHECK_MESSAGE(cpu::find_kernels(node.type) != nullptr, node.type);
    }
  }
}
