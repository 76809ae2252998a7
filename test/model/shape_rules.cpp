#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "model/made_model.hpp"
#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using test::MadeModel;
using test::Numbers;
using test::whole;

namespace {

using Attributes = std::map<std::string, Attribute>;

/// One node with inputs of these shapes, and the expected shapes of its outputs.
struct Case {
  std::string type;
  std::vector<Shape> inputs;
  Attributes attributes;
  std::vector<Shape> outputs;
};

std::vector<Shape> inferred(const Case& given) {
  MadeModel made;
  std::vector<ValueId> inputs;
  for (const Shape& shape : given.inputs) inputs.push_back(made.input(shape));
  const ValueId first = made.node(given.type, inputs, given.attributes, given.outputs.size());
  infer_shapes(made.model);
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < given.outputs.size(); ++i) shapes.push_back(made.shape(ValueId{first.index() + i}));
  return shapes;
}

void check_all(const std::vector<Case>& cases) {
  for (const Case& given : cases) {
    CAPTURE(given.type);
    CAPTURE(text_of(given.inputs[0]));
    try {
      CHECK(inferred(given) == given.outputs);
    } catch (const InputError& error) {
      FAIL_CHECK(error.what());
    }
  }
}

std::string message_of(const std::function<void(MadeModel&)>& build) {
  MadeModel made;
  build(made);
  return test::refusal_of([&] { infer_shapes(made.model); });
}

}  // namespace

TEST_CASE("windows slide over the spatial dimensions") {
  check_all({
      // Stem of ResNet: (224 + 2*3 - 7) / 2 + 1 = 112 (rounded down).
      {"Conv",
       {{32, 3, 224, 224}, {64, 3, 7, 7}},
       {{"strides", Numbers{2, 2}}, {"pads", Numbers{3, 3, 3, 3}}},
       {{32, 64, 112, 112}}},
      // Grouped, as in ResNeXt: 128 channels in 32 groups of 4.
      {"Conv",
       {{1, 128, 56, 56}, {128, 4, 3, 3}, {128}},
       {{"group", whole(32)}, {"pads", Numbers{1, 1, 1, 1}}},
       {{1, 128, 56, 56}}},
      // Depthwise, as in MobileNet, with a 5 x 5 window: (28 + 4 - 5) / 2 + 1 = 14 (27 / 2 rounded down).
      {"Conv",
       {{8, 72, 28, 28}, {72, 1, 5, 5}},
       {{"group", whole(72)}, {"strides", Numbers{2, 2}}, {"pads", Numbers{2, 2, 2, 2}}},
       {{8, 72, 14, 14}}},
      // Dilated by 2, a window of 3 spans 5: 10 - 5 + 1 = 6.
      {"Conv", {{1, 1, 10}, {1, 1, 3}}, {{"dilations", Numbers{2}}}, {{1, 1, 6}}},
      // SAME: 7 / 2 rounded up = 4. VALID: (7 - 3) / 2 + 1 = 3.
      {"Conv",
       {{1, 1, 7, 7}, {1, 1, 3, 3}},
       {{"auto_pad", std::string{"SAME_UPPER"}}, {"strides", Numbers{2, 2}}},
       {{1, 1, 4, 4}}},
      {"Conv",
       {{1, 1, 7, 7}, {1, 1, 3, 3}},
       {{"auto_pad", std::string{"VALID"}}, {"strides", Numbers{2, 2}}, {"pads", Numbers{9, 9, 9, 9}}},
       {{1, 1, 3, 3}}},
      // Transposed: (4 - 1) * 2 + 3 + 1 - 1 - 1 = 8.
      {"ConvTranspose",
       {{1, 8, 4, 4}, {8, 2, 3, 3}},
       {{"strides", Numbers{2, 2}},
        {"pads", Numbers{1, 1, 1, 1}},
        {"output_padding", Numbers{1, 1}},
        {"group", whole(2)}},
       {{1, 4, 8, 8}}},
      {"ConvTranspose",
       {{1, 8, 4, 4}, {8, 2, 3, 3}},
       {{"strides", Numbers{2, 2}}, {"output_shape", Numbers{10, 9}}},
       {{1, 2, 10, 9}}},
      // (112 - 3) / 2 = 54.5: 54 + 1 rounded down, 55 + 1 rounded up (SqueezeNet).
      {"MaxPool",
       {{1, 64, 112, 112}},
       {{"kernel_shape", Numbers{3, 3}}, {"strides", Numbers{2, 2}}},
       {{1, 64, 55, 55}}},
      {"MaxPool",
       {{1, 64, 112, 112}},
       {{"kernel_shape", Numbers{3, 3}}, {"strides", Numbers{2, 2}}, {"ceil_mode", whole(1)}},
       {{1, 64, 56, 56}, {1, 64, 56, 56}}},
      // (3 + 1 + 1 - 2) / 2 = 1.5 rounded up gives 3 positions, but the third would start at 4, in the padding.
      {"AveragePool",
       {{1, 1, 3, 3}},
       {{"kernel_shape", Numbers{2, 2}},
        {"strides", Numbers{2, 2}},
        {"pads", Numbers{1, 1, 1, 1}},
        {"ceil_mode", whole(1)}},
       {{1, 1, 2, 2}}},
      {"GlobalAveragePool", {{2, 512, 7, 7}}, {}, {{2, 512, 1, 1}}},
      {"RoiAlign",
       {{1, 256, 50, 50}, {100, 4}, {100}},
       {{"output_height", whole(7)}, {"output_width", whole(7)}},
       {{100, 256, 7, 7}}},
      {"GridSample", {{1, 3, 8, 8}, {1, 5, 6, 2}}, {}, {{1, 3, 5, 6}}},
      {"DepthToSpace", {{1, 12, 4, 4}}, {{"blocksize", whole(2)}}, {{1, 3, 8, 8}}},
      {"SpaceToDepth", {{1, 3, 8, 8}}, {{"blocksize", whole(2)}}, {{1, 12, 4, 4}}},
  });
}

TEST_CASE("normalizations keep the shape and give statistics") {
  check_all({
      {"BatchNormalization",
       {{8, 16, 4, 4}, {16}, {16}, {16}, {16}},
       {{"training_mode", whole(1)}},
       {{8, 16, 4, 4}, {16}, {16}}},
      {"InstanceNormalization", {{8, 16, 4, 4}, {16}, {16}}, {}, {{8, 16, 4, 4}}},
      {"GroupNormalization", {{8, 16, 4, 4}, {4}, {4}}, {{"num_groups", whole(4)}}, {{8, 16, 4, 4}}},
      {"LayerNormalization",
       {{8, 196, 768}, {768}, {768}},
       {{"axis", whole(-1)}},
       {{8, 196, 768}, {8, 196, 1}, {8, 196, 1}}},
      {"LRN", {{1, 96, 55, 55}}, {}, {{1, 96, 55, 55}}},
      {"Dropout", {{4, 5}}, {}, {{4, 5}, {4, 5}}},
  });
}

TEST_CASE("an output that an operator does not make is refused by its number") {
  const std::string said = message_of([](MadeModel& made) { made.node("Relu", {made.input({2, 3})}, {}, 2); });
  CHECK(said.find("shape-mismatch: ") == 0);
  CHECK(said.find("it has no output 1") != std::string::npos);
}

TEST_CASE("element-wise operators fit their inputs to each other") {
  check_all({
      {"Add", {{8, 1, 6, 1}, {7, 1, 5}}, {}, {{8, 7, 6, 5}}},
      {"Mul", {{2, 3, 4}, {}}, {}, {{2, 3, 4}}},
      {"Mul", {{1, 960, 7, 7}, {1, 960, 1, 1}}, {}, {{1, 960, 7, 7}}},  // squeeze and excitation
      {"Max", {{3}, {2, 1}, {}}, {}, {{2, 3}}},
      {"Where", {{4, 1}, {3}, {}}, {}, {{4, 3}}},
      {"Greater", {{4, 1}, {3}}, {}, {{4, 3}}},
      {"PRelu", {{1, 8, 4, 4}, {8, 1, 1}}, {}, {{1, 8, 4, 4}}},
      {"PRelu", {{1, 8, 4, 4}, {8}}, {}, {{1, 8, 4, 4}}},
      {"Add", {{1, 8, 4, 4}, {8}}, {{"broadcast", whole(1)}, {"axis", whole(1)}}, {{1, 8, 4, 4}}},  // opset 6
      {"Add", {{0, 3}, {1, 3}}, {}, {{0, 3}}},
  });
  for (const char* type : {"Relu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Gelu", "Erf", "Softplus", "Mish",
                           "Selu", "Elu", "Softmax", "LogSoftmax", "CumSum", "Trilu", "Identity"}) {
    CHECK(inferred({type, {{2, 3, 4}}, {}, {{}}}) == std::vector<Shape>{{2, 3, 4}});
  }
}

TEST_CASE("matrix products") {
  check_all({
      {"Gemm", {{64, 9216}, {4096, 9216}, {4096}}, {{"transB", whole(1)}}, {{64, 4096}}},
      {"Gemm", {{5, 2}, {5, 3}}, {{"transA", whole(1)}}, {{2, 3}}},
      {"MatMul", {{16, 12, 384, 64}, {16, 12, 64, 384}}, {}, {{16, 12, 384, 384}}},
      {"MatMul", {{7, 1, 2, 3}, {4, 3, 5}}, {}, {{7, 4, 2, 5}}},
      {"MatMul", {{3}, {2, 3, 4}}, {}, {{2, 4}}},
      {"MatMul", {{2, 4, 3}, {3}}, {}, {{2, 4}}},
      {"MatMul", {{3}, {3}}, {}, {{}}},
      {"Linear", {{16, 384, 1024}, {1024, 4096}, {4096}}, {}, {{16, 384, 4096}}},
      {"Einsum", {{2, 3, 4}, {2, 4, 5}}, {{"equation", std::string{"bij,bjk->bik"}}}, {{2, 3, 5}}},
      {"Einsum", {{2, 3, 4}, {5, 4}}, {{"equation", std::string{"...d, ed -> ...e"}}}, {{2, 3, 5}}},
      {"Einsum", {{3, 3}}, {{"equation", std::string{"ii"}}}, {{}}},
      {"Einsum", {{3, 4}, {4, 5}}, {{"equation", std::string{"ij,jk"}}}, {{3, 5}}},
      // X [32 steps, batch 64, 1024 inputs], W [1, 4 gates x 2048, 1024], R [1, 4 x 2048, 2048].
      {"LSTM",
       {{32, 64, 1024}, {1, 8192, 1024}, {1, 8192, 2048}},
       {{"hidden_size", whole(2048)}},
       {{32, 1, 64, 2048}, {1, 64, 2048}, {1, 64, 2048}}},
      {"GRU",
       {{64, 32, 100}, {2, 600, 100}, {2, 600, 200}},
       {{"hidden_size", whole(200)}, {"layout", whole(1)}, {"direction", std::string{"bidirectional"}}},
       {{64, 32, 2, 200}, {64, 2, 200}}},
      {"SoftmaxCrossEntropyLoss", {{32, 1000}, {32}}, {}, {{}, {32, 1000}}},
      {"SoftmaxCrossEntropyLoss", {{32, 1000}, {32}}, {{"reduction", std::string{"none"}}}, {{32}}},
      {"Attention", {{2, 8, 10, 64}, {2, 8, 20, 64}, {2, 8, 20, 32}}, {}, {{2, 8, 10, 32}}},
      {"ExpertSlots", {{2, 5, 3}}, {{"experts", whole(4)}, {"capacity", whole(6)}}, {{2, 5, 3}}},
      {"ExpertDispatch", {{2, 5, 8}, {2, 5, 3}}, {{"experts", whole(4)}, {"capacity", whole(6)}}, {{4, 12, 8}}},
      {"ExpertCombine", {{4, 12, 8}, {2, 5, 3}, {2, 5, 3}}, {}, {{2, 5, 8}}},
  });
}

TEST_CASE("reductions drop or keep their axes") {
  check_all({
      {"ReduceMean", {{8, 960, 7, 7}}, {{"axes", Numbers{2, 3}}, {"keepdims", whole(0)}}, {{8, 960}}},
      {"ReduceMean", {{8, 196, 768}}, {{"axes", Numbers{-1}}}, {{8, 196, 1}}},
      {"ReduceSum", {{8, 4}}, {}, {{1, 1}}},
      {"ReduceMax", {{8, 4}}, {{"keepdims", whole(0)}}, {{}}},
      {"ReduceL2", {{8, 4}}, {{"noop_with_empty_axes", whole(1)}}, {{8, 4}}},
      {"ArgMax", {{8, 4}}, {{"axis", whole(1)}, {"keepdims", whole(0)}}, {{8}}},
      {"TopK", {{8, 10}}, {{"k", whole(5)}}, {{8, 5}, {8, 5}}},
  });
}

TEST_CASE("layout operators") {
  check_all({
      {"Flatten", {{64, 256, 6, 6}}, {}, {{64, 9216}}},
      {"Flatten", {{2, 3, 4}}, {{"axis", whole(-1)}}, {{6, 4}}},
      {"Flatten", {{2, 3}}, {{"axis", whole(0)}}, {{1, 6}}},
      {"Transpose", {{2, 3, 4}}, {{"perm", Numbers{2, 0, 1}}}, {{4, 2, 3}}},
      {"Transpose", {{2, 3, 4}}, {}, {{4, 3, 2}}},
      {"Squeeze", {{1, 3, 1}}, {}, {{3}}},
      {"Squeeze", {{1, 3, 1}}, {{"axes", Numbers{-1}}}, {{1, 3}}},
      {"Unsqueeze", {{3}}, {{"axes", Numbers{0, 2}}}, {{1, 3, 1}}},
      {"Concat", {{1, 64, 8, 8}, {1, 32, 8, 8}, {1, 32, 8, 8}}, {{"axis", whole(1)}}, {{1, 128, 8, 8}}},  // DenseNet
      {"Split", {{6, 4}}, {{"split", Numbers{2, 4}}}, {{2, 4}, {4, 4}}},
      {"Split", {{2, 116, 28, 28}}, {{"axis", whole(1)}}, {{2, 58, 28, 28}, {2, 58, 28, 28}}},  // ShuffleNet
      {"Split", {{7}}, {{"num_outputs", whole(3)}}, {{3}, {3}, {1}}},
      {"Slice", {{4, 10}}, {{"starts", Numbers{2}}, {"ends", Numbers{-1}}, {"axes", Numbers{1}}}, {{4, 7}}},
      {"Pad", {{1, 3, 8, 8}}, {{"pads", Numbers{0, 0, 1, 1, 0, 0, 2, 2}}}, {{1, 3, 11, 11}}},
      {"Gather", {{30522, 1024}, {16, 384}}, {}, {{16, 384, 1024}}},
      {"Gather", {{5, 6, 7}, {}}, {{"axis", whole(1)}}, {{5, 7}}},
      {"GatherElements", {{5, 6}, {2, 6}}, {}, {{2, 6}}},
      {"GatherND", {{5, 6, 7}, {10, 2}}, {}, {{10, 7}}},
      {"ScatterND", {{5, 6}, {3, 1}, {3, 6}}, {}, {{5, 6}}},
      {"Upsample", {{1, 3, 4, 4}}, {{"scales", std::vector<double>{1, 1, 2, 2.5}}}, {{1, 3, 8, 10}}},
      {"Shape", {{5, 6}}, {}, {{2}}},
      {"Shape", {{5, 6, 7}}, {{"start", whole(1)}, {"end", whole(-1)}}, {{1}}},
      {"Size", {{5, 6}}, {}, {{}}},
  });
}

TEST_CASE("shapes that follow from the contents of other inputs") {
  MadeModel made;
  const ValueId x = made.input({2, 6, 4});
  const auto check = [&](const std::string& type, std::vector<ValueId> inputs, const Shape& expected,
                         const Attributes& attributes = {}) {
    CAPTURE(type);
    const ValueId y = made.node(type, std::move(inputs), attributes);
    infer_shapes(made.model, NodeId{made.model.nodes.size() - 1});
    CHECK(made.shape(y) == expected);
  };
  check("Reshape", {x, made.numbers({0, -1})}, {2, 24});
  check("Reshape", {x, made.numbers({4, 3, -1})}, {4, 3, 4});
  check("Reshape", {made.input({0, 3}), made.numbers({3, 0})}, {3, 0}, {{"allowzero", whole(1)}});
  check("Expand", {made.input({1, 6, 1}), made.numbers({2, 1, 4})}, {2, 6, 4});
  check("Tile", {x, made.numbers({1, 2, 3})}, {2, 12, 12});
  check("Squeeze", {made.input({1, 4}), made.numbers({0})}, {4});
  check("Unsqueeze", {x, made.numbers({0, 4})}, {1, 2, 6, 4, 1});
  check("Slice", {x, made.numbers({1}), made.numbers({INT64_MAX}), made.numbers({1})}, {2, 5, 4});
  check("Slice", {x, made.numbers({-1}), made.numbers({INT64_MIN}), made.numbers({1}), made.numbers({-2})}, {2, 3, 4});
  check("Pad", {made.input({1, 3, 4, 4}), made.numbers({1, 1, 1, 1}), ValueId::none(), made.numbers({2, 3})},
        {1, 3, 6, 6});
  check("ReduceMean", {x, made.numbers({1, 2})}, {2}, {{"keepdims", whole(0)}});
  check("Resize", {made.input({1, 3, 4, 4}), ValueId::none(), ValueId::none(), made.numbers({1, 3, 9, 9})},
        {1, 3, 9, 9});
  check("Resize", {made.input({1, 3, 4, 4}), made.reals({1, 1, 1.5, 2})}, {1, 3, 6, 8});  // opset 10
  check("TopK", {x, made.numbers({3})}, {2, 6, 3});
  check("OneHot", {made.input({5}, DataType::int64), made.number(10), made.reals({0, 1})}, {5, 10});
  check("ConstantOfShape", {made.numbers({3, 5})}, {3, 5});
  check("Range", {made.number(10), made.number(0), made.number(-3)}, {4});  // 10 7 4 1
  check("Range", {made.real(0.5), made.real(2), made.real(0.5)}, {3});      // 0.5 1 1.5
}

TEST_CASE("types follow the operator") {
  MadeModel made;
  const ValueId x = made.input({4}, DataType::float16), indices = made.input({2}, DataType::int64);
  const ValueId cast = made.node("Cast", {x}, {{"to", whole(7)}});
  const ValueId less = made.node("Less", {x, x});
  const ValueId gathered = made.node("Gather", {x, indices});
  const ValueId shape = made.node("Shape", {x});
  const ValueId best = made.node("ArgMax", {x});
  const ValueId chosen = made.node("Where", {less, x, x});
  infer_shapes(made.model);
  const auto type = [&](ValueId id) { return name_of(made.model.values[id].type); };
  CHECK(type(cast) == "int64");
  CHECK(type(less) == "bool");
  CHECK(type(gathered) == "float16");
  CHECK(type(shape) == "int64");
  CHECK(type(best) == "int64");
  CHECK(type(chosen) == "float16");
}

TEST_CASE("what does not fit is refused with the node, the operator and the reason") {
  CHECK(message_of([](MadeModel& m) {
          m.node("Conv", {m.input({1, 3, 8, 8}), m.parameter({4, 2, 3, 3})});
        }) == "shape-mismatch: Conv 'Conv0': the input has 3 channels, but the weight has 2 in each of 1 groups");
  CHECK(message_of([](MadeModel& m) {
          m.node("Conv", {m.input({1, 3, 2, 2}), m.parameter({4, 3, 3, 3})});
        }) == "shape-mismatch: Conv 'Conv0': a window of 3 does not fit into 2 with its padding");
  CHECK(message_of([](MadeModel& m) {
          m.node("MatMul", {m.input({2, 3}), m.input({4, 5})});
        }) == "shape-mismatch: MatMul 'MatMul0': 2x3 times 4x5: the inner dimensions 3 and 4 differ");
  CHECK(message_of([](MadeModel& m) {
          m.node("Add", {m.input({2, 3}), m.input({4})});
        }) == "shape-mismatch: Add 'Add0': shapes 2x3 and 4 do not fit: dimensions must be equal or 1");
  CHECK(message_of([](MadeModel& m) {
          m.node("Reshape", {m.input({2, 3}), m.numbers({4, -1})});
        }) == "shape-mismatch: Reshape 'Reshape0': 2x3 does not divide into the new shape 4x-1");
  CHECK(message_of([](MadeModel& m) {
          m.node("Concat", {m.input({2, 3}), m.input({3, 3})}, {{"axis", whole(1)}});
        }) == "shape-mismatch: Concat 'Concat0': 2x3 and 3x3 cannot be joined along axis 1");
  CHECK(message_of([](MadeModel& m) { m.node("Softmaxx", {m.input({2})}); }) ==
        "unknown-operator: Softmaxx 'Softmaxx0': the shapes that this operator produces are not known");
  CHECK(message_of([](MadeModel& m) { m.node("NonZero", {m.input({2})}); }) ==
        "unknown-shape: NonZero 'NonZero0': the size of its output depends on the data");
  CHECK(message_of([](MadeModel& m) {
          m.node("Reshape", {m.input({2, 3}), m.input({2}, DataType::int64)});
        }) ==
        "unknown-shape: Reshape 'Reshape0': it depends on the contents of 'x1', which are not known before the run");
  CHECK(message_of([](MadeModel& m) { m.node("Relu", {}); }) == "shape-mismatch: Relu 'Relu0': input 0 is missing");
  CHECK(message_of([](MadeModel& m) {
          m.node("Flatten", {m.input({2, 3})}, {{"axis", std::string{"one"}}});
        }) == "attribute: Flatten 'Flatten0': the attribute 'axis' is not a whole number");
  CHECK(message_of([](MadeModel& m) {
          m.node("Expand", {m.input({1}), m.numbers({1LL << 40, 1LL << 40})});
        }) == "too-large: Expand 'Expand0': an array of 1099511627776x1099511627776 has too many elements");
  CHECK(
      message_of([](MadeModel& m) {
        m.node("ConvTranspose", {m.input({1, 1, 1LL << 39}), m.parameter({1, 1, 1})}, {{"strides", Numbers{1 << 30}}});
      }) == "shape-mismatch: ConvTranspose 'ConvTranspose0': the output is too large");
}

TEST_CASE("inputs that costs and gradients read by place are there, and no others") {
  const auto refused = [](const std::string& type, const std::vector<Shape>& shapes,
                          const Attributes& attributes = {}) {
    const std::string message = message_of([&](MadeModel& m) {
      std::vector<ValueId> inputs;
      for (const Shape& shape : shapes)  // an empty shape: the input is left out
        inputs.push_back(shape.empty() ? ValueId::none() : m.input(shape));
      m.node(type, inputs, attributes);
    });
    return message.substr(message.find("': ") + 3);
  };
  const Shape image{2, 4, 3, 3}, rows{2, 3, 8};
  CHECK(refused("SoftmaxCrossEntropyLoss", {{2, 3}}) == "input 1 is missing");
  CHECK(refused("BatchNormalization", {image}, {{"training_mode", whole(1)}}) == "input 1 is missing");
  CHECK(refused("InstanceNormalization", {image}) == "input 1 is missing");
  CHECK(refused("GroupNormalization", {image}, {{"num_groups", whole(3)}}) ==
        "4 channels cannot be divided into 3 groups");
  CHECK(refused("Attention", {rows, {}, rows}) == "input 1 is missing");
  CHECK(refused("Attention", {rows, {8}, rows}) == "query, key and value have different numbers of dimensions");
  for (const char* type : {"Add", "Div", "Mul", "Pow", "Sub"}) {
    CAPTURE(type);
    CHECK(refused(type, {rows}) == "input 1 is missing");
    CHECK(refused(type, {rows, {}}, {{"broadcast", whole(1)}}) == "input 1 is missing");
    CHECK(refused(type, {rows, rows, rows}) == "it has 3 inputs, at most 2 are allowed");
  }
  CHECK(refused("Max", {rows, {}, rows}, {{"broadcast", whole(1)}}) == "input 1 is missing");
  CHECK(refused("LSTM", {{5, 2, 3}, {1, 16, 3}, {1, 16, 4}}, {{"hidden_size", whole(2)}}) ==
        "1 directions of 2 cells do not fit the weight 1x16x4");
}

TEST_CASE("an unknown operator passes where the file gives its shapes, and misleads nobody behind it") {
  MadeModel made;
  const ValueId x = made.input({2, 3});
  const ValueId y = made.node("my::Thing", {x});
  made.model.values[y].shape = {2, 5};
  made.model.values[y].shape_known = true;
  const ValueId z = made.node("Relu", {y});
  infer_shapes(made.model);
  CHECK(made.shape(z) == Shape{2, 5});

  // Without known shapes there is one finding; the Relu after the failing node adds none.
  made.model.values[y].shape_known = false;
  made.model.values[z].shape_known = false;
  const auto findings = test::findings_of([&] { infer_shapes(made.model); });
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "unknown-operator");
  CHECK(findings[0].help.find("value_info") != std::string::npos);
}

TEST_CASE("at most 20 findings are reported at once") {
  MadeModel made;
  const ValueId x = made.input({2, 3});
  for (int i = 0; i < 30; ++i) made.node("Nothing", {x});
  CHECK(test::findings_of([&] { infer_shapes(made.model); }).size() == 20);
}

TEST_CASE("a node names values that there are") {
  for (const bool input : {true, false}) {
    MadeModel made;
    made.node("Relu", {made.input({2, 3})});
    Node& node = made.model.nodes[NodeId{0}];
    (input ? node.inputs : node.outputs)[0] = ValueId{99};
    CHECK(test::code_of([&] { infer_shapes(made.model); }) == "unknown-value");
  }
}
