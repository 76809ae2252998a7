#include <doctest/doctest.h>

#include <string>

#include "io/onnx/onnx_writer.hpp"
#include "trainyard/io/onnx/onnx.hpp"

// Blocks of torchvision's convolutional classifiers, as its exporters write them at opsets 11 to 18.

using namespace trainyard;
using test::Onnx;
using test::OnnxWriter;

namespace {

struct Read {
  Shape output;
  std::string types;  // node types after folding and fusing
  std::int64_t parameters;

  friend bool operator==(const Read&, const Read&) = default;
};

doctest::String toString(const Read& read) {
  return (text_of(read.output) + ", " + read.types + ", " + std::to_string(read.parameters)).c_str();
}

Read read(const OnnxWriter& writer) {
  const Model model = parse_onnx(writer.bytes(), "block");
  std::string types;
  for (const Node& node : model.nodes) types += (types.empty() ? "" : " ") + node.type;
  return {model.values[model.outputs.at(0)].shape, types, model.parameter_count()};
}

}  // namespace

TEST_CASE("MobileNet v2: expansion, depthwise convolution, projection, ReLU6 as Clip") {
  OnnxWriter w;
  w.opset(11).input("x", {8, 24, 56, 56}).weight("e.weight", {144, 24, 1, 1}).weight("d.weight", {144, 1, 3, 3});
  w.weight("p.weight", {24, 144, 1, 1}).literal("low", {0}).literal("high", {6});
  w.node("Conv", {"x", "e.weight"}, {"e"}).node("Clip", {"e", "low", "high"}, {"e6"});
  w.node("Conv", {"e6", "d.weight"}, {"d"}, Onnx{}.whole("group", 144).wholes("pads", {1, 1, 1, 1}));
  w.node("Clip", {"d"}, {"d6"}, Onnx{}.real("min", 0).real("max", 6)).node("Conv", {"d6", "p.weight"}, {"p"});
  w.node("Add", {"x", "p"}, {"y"}).output("y");
  CHECK(read(w) == Read{{8, 24, 56, 56}, "Conv Clip Conv Clip Conv Add", 144 * 24 + 144 * 9 + 24 * 144});
}

TEST_CASE("MobileNet v3 and EfficientNet: squeeze and excitation, hard and soft swish") {
  OnnxWriter w;
  w.input("x", {8, 72, 28, 28}).weight("fc1.weight", {24, 72, 1, 1}).weight("fc2.weight", {72, 24, 1, 1});
  w.node("HardSwish", {"x"}, {"h"}).node("GlobalAveragePool", {"h"}, {"s"}).node("Conv", {"s", "fc1.weight"}, {"a"});
  w.node("Relu", {"a"}, {"b"}).node("Conv", {"b", "fc2.weight"}, {"c"});
  w.node("HardSigmoid", {"c"}, {"g"}, Onnx{}.real("alpha", 1.0F / 6)).node("Mul", {"g", "h"}, {"m"});
  w.node("Sigmoid", {"m"}, {"sg"}).node("Mul", {"m", "sg"}, {"y"});
  w.node("ReduceMean", {"y"}, {"z"}, Onnx{}.wholes("axes", {2, 3}).whole("keepdims", 0)).output("z");
  CHECK(read(w) == Read{{8, 72},
                        "HardSwish GlobalAveragePool Conv Relu Conv HardSigmoid Mul Sigmoid Mul ReduceMean",
                        2 * 24 * 72});
}

TEST_CASE("ShuffleNet v2: halves, and a shuffle of channels through five dimensions") {
  OnnxWriter w;
  w.input("x", {8, 116, 28, 28}).weight("c.weight", {58, 58, 1, 1}).literal("halves", {58, 58});
  w.node("Split", {"x", "halves"}, {"a", "b"}, Onnx{}.whole("axis", 1)).node("Conv", {"b", "c.weight"}, {"c"});
  w.node("Concat", {"a", "c"}, {"j"}, Onnx{}.whole("axis", 1));
  // Channel shuffle: x.view(batch, 2, channels / 2, h, w).transpose(1, 2).view(batch, -1, h, w), with sizes taken from
  // x.
  w.node("Shape", {"j"}, {"sh"}).literal("zero", {0}).literal("two", {2}).literal("four", {4});
  w.node("Slice", {"sh", "zero", "one"}, {"n"}).literal("one", {1}).node("Slice", {"sh", "two", "four"}, {"hw"});
  w.node("Slice", {"sh", "one", "two"}, {"ch"}).node("Div", {"ch", "two"}, {"half"});
  w.node("Concat", {"n", "two", "half", "hw"}, {"five"}, Onnx{}.whole("axis", 0));
  w.node("Reshape", {"j", "five"}, {"r"}).node("Transpose", {"r"}, {"t"}, Onnx{}.wholes("perm", {0, 2, 1, 3, 4}));
  w.literal("rest", {-1}).node("Concat", {"n", "rest", "hw"}, {"back"}, Onnx{}.whole("axis", 0));
  w.node("Reshape", {"t", "back"}, {"y"}).output("y");
  CHECK(read(w) == Read{{8, 116, 28, 28}, "Split Conv Concat Reshape Transpose Reshape", 58 * 58});
}

TEST_CASE("DenseNet: layers on everything before them, a transition") {
  OnnxWriter w;
  w.opset(13).input("x", {8, 64, 56, 56}).weight("c1.weight", {32, 64, 3, 3}).weight("c2.weight", {32, 96, 3, 3});
  const Onnx padded = Onnx{}.wholes("pads", {1, 1, 1, 1});
  w.node("Conv", {"x", "c1.weight"}, {"a"}, padded).node("Concat", {"x", "a"}, {"xa"}, Onnx{}.whole("axis", 1));
  w.node("Conv", {"xa", "c2.weight"}, {"b"}, padded).node("Concat", {"x", "a", "b"}, {"xab"}, Onnx{}.whole("axis", 1));
  w.node("AveragePool", {"xab"}, {"y"}, Onnx{}.wholes("kernel_shape", {2, 2}).wholes("strides", {2, 2})).output("y");
  CHECK(read(w) == Read{{8, 128, 28, 28}, "Conv Concat Conv Concat AveragePool", 32 * 9 * (64 + 96)});
}

TEST_CASE("ResNeXt and RegNet: convolutions in groups") {
  OnnxWriter w;
  w.input("x", {8, 256, 14, 14}).weight("c.weight", {256, 8, 3, 3}).weight("c.bias", {256});
  w.node("Conv", {"x", "c.weight", "c.bias"}, {"y"},
         Onnx{}.whole("group", 32).wholes("pads", {1, 1, 1, 1}).wholes("strides", {2, 2}));
  w.output("y");
  CHECK(read(w) == Read{{8, 256, 7, 7}, "Conv", 256 * 8 * 9 + 256});
}

TEST_CASE("ConvNeXt: a norm over channels last, GELU, layer scale") {
  OnnxWriter w;
  w.opset(18).input("x", {8, 96, 56, 56}).weight("dw.weight", {96, 1, 7, 7}).weight("ln.weight", {96});
  w.weight("ln.bias", {96}).weight("fc1.weight", {96, 384}).weight("fc1.bias", {384}).weight("fc2.weight", {384, 96});
  w.weight("fc2.bias", {96}).weight("layer_scale", {96, 1, 1});
  w.node("Conv", {"x", "dw.weight"}, {"d"}, Onnx{}.whole("group", 96).wholes("pads", {3, 3, 3, 3}));
  w.node("Transpose", {"d"}, {"t"}, Onnx{}.wholes("perm", {0, 2, 3, 1}));
  w.node("LayerNormalization", {"t", "ln.weight", "ln.bias"}, {"n"}, Onnx{}.whole("axis", -1));
  w.node("MatMul", {"n", "fc1.weight"}, {"m1"}).node("Add", {"fc1.bias", "m1"}, {"b1"});
  w.node("Constant", {}, {"root"}, Onnx{}.real("value_float", 1.41421356F));
  w.node("Constant", {}, {"one"}, Onnx{}.real("value_float", 1)).node("Div", {"b1", "root"}, {"q"});
  w.node("Constant", {}, {"half"}, Onnx{}.real("value_float", 0.5F)).node("Erf", {"q"}, {"e"});
  w.node("Add", {"e", "one"}, {"e1"}).node("Mul", {"b1", "e1"}, {"g2"}).node("Mul", {"g2", "half"}, {"g"});
  w.node("MatMul", {"g", "fc2.weight"}, {"m2"}).node("Add", {"fc2.bias", "m2"}, {"b2"});
  w.node("Transpose", {"b2"}, {"tt"}, Onnx{}.wholes("perm", {0, 3, 1, 2}));
  w.node("Mul", {"layer_scale", "tt"}, {"ls"}).node("Add", {"ls", "x"}, {"y"}).output("y");
  CHECK(read(w) == Read{{8, 96, 56, 56},
                        "Conv Transpose LayerNormalization Linear Gelu Linear Transpose Mul Add",
                        96 * 49 + 2 * 96 + 2 * 96 * 384 + 384 + 96 + 96});
}
