#include "trainyard/io/onnx/onnx.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/onnx/onnx_writer.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/training/training.hpp"

using namespace trainyard;
using test::Onnx;
using test::OnnxWriter;
using Data = OnnxWriter::Data;

namespace {

Model parse(const OnnxWriter& writer, const OnnxOptions& options = {}) {
  return parse_onnx(writer.bytes(), "made", options);
}

const Value& value(const Model& model, const std::string& name) {
  const auto at =
      std::find_if(model.values.begin(), model.values.end(), [&](const Value& v) { return v.name == name; });
  REQUIRE(at != model.values.end());
  return *at;
}

bool is_parameter(const Model& model, const std::string& name) {
  return value(model, name).role == Value::Role::parameter;
}

/// A network of a convolution and a Relu; `declare` adds the convolution's weight.
OnnxWriter small_network(const std::function<void(OnnxWriter&)>& declare) {
  OnnxWriter writer;
  writer.input("image", {2, 3, 8, 8});
  declare(writer);
  writer.node("Conv", {"image", "conv.weight"}, {"a"}, Onnx{}.wholes("pads", {1, 1, 1, 1}));
  writer.node("Relu", {"a"}, {"b"}).output("b");
  return writer;
}

std::string complaint(const std::string& bytes, const OnnxOptions& options = {}) {
  try {
    parse_onnx(bytes, "made", options);
  } catch (const InputError& error) {
    CHECK_FALSE(error.findings().empty());
    CHECK(error.findings().size() <= kMostFindings);
    return error.findings().front().code + ": " + error.what();
  }
  return "accepted";
}

std::string complaint(const OnnxWriter& writer, const OnnxOptions& options = {}) {
  return complaint(writer.bytes(), options);
}

}  // namespace

TEST_CASE("weights may be present, stripped in any way, or be inputs") {
  const std::vector<std::int64_t> dims = {4, 3, 3, 3};
  const std::vector<OnnxWriter> variants = {
      small_network([&](OnnxWriter& w) { w.weight("conv.weight", dims); }),  // with data
      small_network([&](OnnxWriter& w) {
        w.input("conv.weight", {4, 3, 3, 3});
      }),                                                                                    // A: typed graph input
      small_network([&](OnnxWriter& w) { w.weight("conv.weight", dims, Data::none); }),      // B: no data field
      small_network([&](OnnxWriter& w) { w.weight("conv.weight", dims, Data::empty); }),     // C: empty data
      small_network([&](OnnxWriter& w) { w.weight("conv.weight", dims, Data::external); }),  // D: another file
      small_network([&](OnnxWriter& w) {
        w.described("conv.weight", {4, 3, 3, 3});
      }),  // E: only described
      small_network([&](OnnxWriter& w) {
        w.weight("conv.weight", dims).input("conv.weight", {4, 3, 3, 3});
      }),  // IR 3
  };
  for (std::size_t i = 0; i < variants.size(); ++i) {
    CAPTURE(i);
    const Model model = parse(variants[i]);
    CHECK(model.parameter_count() == 4 * 3 * 3 * 3);
    REQUIRE(model.inputs.size() == 1);
    CHECK(model.values[model.inputs[0]].name == "image");
    CHECK(value(model, "b").shape == Shape{2, 4, 8, 8});
    CHECK(model.nodes.size() == 2);
    CHECK(model.nodes[NodeId{0}].layer == "conv");
    CHECK(model.nodes[NodeId{1}].layer == "conv");  // layer of the convolution before it
  }
}

TEST_CASE("a file is mapped, and the model is called after it") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "net.onnx";
  test::write_text(path, small_network([](OnnxWriter& w) { w.weight("conv.weight", {4, 3, 3, 3}); }).bytes());
  CHECK(read_onnx(path).name == "net");
  CHECK_THROWS_AS(read_onnx(folder.path() / "absent.onnx"), InputError);
  test::write_text(path, "");
  CHECK_THROWS_WITH_AS(read_onnx(path), "the file is empty", InputError);
  std::filesystem::resize_file(path, limits::kInput + 1);  // sparse
  CHECK_THROWS_WITH_AS(read_onnx(path), doctest::Contains("holds more than 4294967296 bytes"), InputError);
}

TEST_CASE("without metadata, inputs are told from weights by use and name") {
  OnnxWriter writer;
  writer.input("ids", {8, 16}, OnnxWriter::kInt64).input("emb.weight", {100, 32});
  writer.input("fc.weight", {64, 32}).input("fc.bias", {64}).input("memory", {8, 64, 10});
  writer.input("gain", {64}).input("shift", {64});
  writer.node("Gather", {"emb.weight", "ids"}, {"e"});
  writer.node("Transpose", {"fc.weight"}, {"wt"}, Onnx{}.wholes("perm", {1, 0}));
  writer.node("MatMul", {"e", "wt"}, {"m"}).node("Add", {"m", "fc.bias"}, {"x"});
  writer.node("LayerNormalization", {"x", "gain", "shift"}, {"n"});
  writer.node("MatMul", {"n", "memory"}, {"s"}).output("s");

  const Model model = parse(writer);
  for (const char* name : {"emb.weight", "fc.weight", "fc.bias", "gain", "shift"}) {
    CAPTURE(name);
    CHECK(is_parameter(model, name));
  }
  CHECK(model.inputs.size() == 2);  // inputs ids and memory
  CHECK_FALSE(is_parameter(model, "memory"));

  SUBCASE("the caller's list of inputs is complete") {
    const Model listed = parse(writer, {.inputs = {"ids"}});
    CHECK(listed.inputs.size() == 1);
    CHECK(is_parameter(listed, "memory"));
    CHECK(complaint(writer, {.inputs = {"id"}}) == "unknown-input: the graph has no input 'id'");
  }
  SUBCASE("metadata are believed") {
    writer.metadata("dps.user_inputs", "ids,memory").metadata("dps.parameters", "emb.weight\nfc.weight\nfc.bias\ngain");
    writer.metadata("dps.buffers", "shift");
    const Model named = parse(writer);
    CHECK(value(named, "shift").role == Value::Role::buffer);
    CHECK(named.inputs.size() == 2);
    CHECK(named.parameter_count() == 100 * 32 + 64 * 32 + 64 + 64);
  }
}

TEST_CASE("running statistics are buffers, lone numbers constants") {
  OnnxWriter writer;
  writer.input("x", {8, 16, 4, 4});
  for (const char* name : {"g", "b", "m", "v"}) writer.weight(name, {16});
  writer.weight("half", {});
  writer.node("BatchNormalization", {"x", "g", "b", "m", "v"}, {"y", "", ""}, Onnx{}.whole("training_mode", 1));
  writer.node("Mul", {"y", "half"}, {"z"}).output("z");
  const Model model = parse(writer);
  CHECK(model.parameter_count() == 32);
  CHECK(value(model, "m").role == Value::Role::buffer);
  CHECK(value(model, "v").role == Value::Role::buffer);
  CHECK(value(model, "half").role == Value::Role::constant);
  CHECK_FALSE(model.from_inference_export);
}

TEST_CASE("equal weights that an exporter merged are counted apart, and a lone Identity is nothing") {
  OnnxWriter writer;
  writer.input("x", {8, 16}).weight("a.weight", {16, 16}).weight("a.bias", {16}).weight("c.bias", {16});
  writer.node("Identity", {"a.bias"}, {"b.bias"}).node("Identity", {"c.bias"}, {"d.bias"});
  writer.node("Gemm", {"x", "a.weight", "a.bias"}, {"y"}).node("Gemm", {"y", "a.weight", "b.bias"}, {"z"});
  writer.node("Gemm", {"z", "a.weight", "d.bias"}, {"o"}).output("o");
  const Model model = parse(writer);
  CHECK(model.parameter_count() == 16 * 16 + 3 * 16);
  CHECK(model.nodes.size() == 3);
}

TEST_CASE("whether a norm or dropout trains is read for every opset") {
  const auto mode = [](std::int64_t opset, std::size_t outputs, const Onnx& attributes) {
    OnnxWriter writer;
    writer.opset(opset).input("x", {8, 16, 4, 4});
    for (const char* name : {"g", "b", "m", "v"}) writer.weight(name, {16});
    std::vector<std::string> made = {"y"};
    for (std::size_t i = 1; i < outputs; ++i) made.push_back("s" + std::to_string(i));
    writer.node("BatchNormalization", {"x", "g", "b", "m", "v"}, made, attributes).output("y");
    const Model model = parse(writer);
    CHECK(model.from_inference_export == (model.nodes[NodeId{0}].integer("training_mode", 9) == 0));
    return model.nodes[NodeId{0}].integer("training_mode", 9);
  };
  CHECK(mode(17, 3, Onnx{}.whole("training_mode", 1)) == 1);
  CHECK(mode(17, 1, {}) == 0);
  CHECK(mode(11, 5, {}) == 1);
  CHECK(mode(11, 1, {}) == 0);
  CHECK(mode(6, 1, Onnx{}.whole("is_test", 0)) == 1);
  CHECK(mode(6, 1, Onnx{}.whole("is_test", 1)) == 0);

  const auto dropout = [](std::int64_t opset) {
    OnnxWriter writer;
    writer.opset(opset).input("x", {8, 16});
    writer.node("Dropout", {"x"}, {"y"}).node("Neg", {"y"}, {"z"}).output("z");
    return parse(writer).nodes.size();
  };
  CHECK(dropout(11) == 2);  // the mode is set at run time: training, so the op is kept
  CHECK(dropout(13) == 1);  // inference unless the node states training: the op is dropped
}

TEST_CASE("nodes may stand in any order, unless they form a cycle") {
  OnnxWriter writer;
  writer.input("x", {4}).node("Neg", {"b"}, {"c"}, {}, "third").node("Exp", {"a"}, {"b"}, {}, "second");
  writer.node("Relu", {"x"}, {"a"}, {}, "first").output("c");
  const Model model = parse(writer);
  CHECK(model.nodes[NodeId{0}].name == "first");
  CHECK(model.nodes[NodeId{2}].name == "third");

  OnnxWriter cyclic;
  cyclic.input("x", {4}).node("Add", {"x", "c"}, {"a"}, {}, "sum").node("Exp", {"a"}, {"b"}, {}, "up");
  cyclic.node("Neg", {"b"}, {"c"}, {}, "down").node("Relu", {"c"}, {"d"}, {}, "behind").output("d");
  CHECK(complaint(cyclic) == "cycle: the graph has a cycle: 'up' -> 'down' -> 'sum' -> 'up'");

  OnnxWriter loop;
  loop.node("Relu", {"a"}, {"a"}, {}, "self").output("a");
  CHECK(complaint(loop) == "cycle: the graph has a cycle: 'self' -> 'self'");
}

TEST_CASE("literals stand in initializers, Constant nodes and attributes") {
  OnnxWriter writer;
  writer.input("x", {2, 12}).literal("shape", {2, 3, 4});
  writer.node("Reshape", {"x", "shape"}, {"a"});
  writer.node("Constant", {}, {"order"}, Onnx{}.tensor("value", {4, 6}));
  writer.node("Reshape", {"a", "order"}, {"b"});
  writer.node("Constant", {}, {"axes"}, Onnx{}.wholes("value_ints", {0}));
  writer.node("Unsqueeze", {"b", "axes"}, {"c"}).output("c");
  const Model model = parse(writer);
  CHECK(value(model, "c").shape == Shape{1, 4, 6});
  CHECK(model.nodes.size() == 3);
}

TEST_CASE("a first result that is left out is made all the same, and trains") {
  OnnxWriter writer;
  writer.input("x", {5, 2, 3}).weight("w", {1, 16, 3}).weight("r", {1, 16, 4}).weight("h_1.out", {4, 6});
  writer.node("LSTM", {"x", "w", "r"}, {"", "h"}).node("MatMul", {"h", "h_1.out"}, {"y"}).output("y");
  const Model model = parse(writer);
  const Node& lstm = *model.nodes.begin();
  REQUIRE(!lstm.outputs[0].is_none());
  CHECK(model.values[lstm.outputs[0]].shape == Shape{5, 1, 2, 4});
  // A step on 2 samples with 4 cells and 4 gates takes 2 x 2 x 16 x (3 + 4) = 448 FLOPs; five steps.
  CHECK(training_step(model).summary.forward_matmul_flops == Flops{5 * 448 + 2 * 2 * 4 * 6});
}

TEST_CASE("control flow and unknown operators need the shapes of their results") {
  OnnxWriter writer;
  writer.input("x", {4}).input("c", {}, OnnxWriter::kBool);
  writer.node("If", {"c"}, {"a"}, Onnx{}.graph("then_branch").graph("else_branch"), "choice");
  writer.node("FusedThing", {"a", "x"}, {"b"}, {}, "thing", "com.example").output("b");
  CHECK(complaint(writer) == "control-flow: If 'choice' contains subgraphs that run or repeat depending on data");
  writer.described("a", {4});
  CHECK(complaint(writer) ==
        "unknown-operator: com.example::FusedThing 'thing': the shapes that this operator produces are not known");
  OnnxWriter shaped = writer;
  shaped.node("Neg", {"b"}, {"d"}).described("b", {7}).output("d");
  CHECK(value(parse(shaped), "d").shape == Shape{7});
}

TEST_CASE("an operator that nothing is known of is named, and its type has its domain before it") {
  OnnxWriter writer;
  writer.input("x", {4}).node("FlashAttn", {"x"}, {"a"}, {}, "f").described("a", {4});
  writer.node("MyOp", {"a"}, {"b"}, {}, "m", "com.acme").described("b", {4});
  writer.node("FlashAttn", {"b"}, {"c"}, {}, "g").described("c", {4}).output("c");
  const Model model = parse(writer);
  std::vector<std::string> types;
  for (const Node& node : model.nodes) types.push_back(node.type);
  CHECK(types == std::vector<std::string>{"onnx::FlashAttn", "com.acme::MyOp", "onnx::FlashAttn"});
  const auto noted = [&](const char* words) {
    return std::ranges::any_of(model.notes,
                               [&](const std::string& note) { return note.find(words) != std::string::npos; });
  };
  CHECK(noted("operator onnx::FlashAttn ('f' and 1 more)"));
  CHECK(noted("operator com.acme::MyOp ('m')"));
}

TEST_CASE("a dimension without a size or a name is called after its place") {
  OnnxWriter writer;
  writer.input("x", {-1, 4, "L"}).node("Relu", {"x"}, {"y"}).output("y", {"L"});
  CHECK(complaint(writer) == "unbound-dimension: the sizes of these dimensions are not known: x[0], L");
  CHECK(value(parse(writer, {.bind = {{"x[0]", 3}, {"L", 5}}}), "y").shape == Shape{3, 4, 5});
}

TEST_CASE("what nothing defines, and what is defined twice, is named") {
  OnnxWriter missing;
  missing.input("image", {4}).node("Relu", {"imgae"}, {"y"}, {}, "r").output("z");
  CHECK(complaint(missing) == "unknown-tensor: Relu 'r' reads 'imgae', which nothing defines");
  OnnxWriter output;
  output.input("x", {4}).node("Relu", {"x"}, {"y"}).output("z");
  CHECK(complaint(output) == "unknown-tensor: the list of graph outputs reads 'z', which nothing defines");
  OnnxWriter twice;
  twice.input("x", {4}).node("Relu", {"x"}, {"y"}).node("Neg", {"x"}, {"y"}).output("y");
  CHECK(complaint(twice) == "duplicate-name: 'y' is defined twice");
  CHECK(complaint(OnnxWriter{}.input("x", {4})) == "empty-graph: the graph has no nodes");
}

TEST_CASE("nodes get names of their own") {
  OnnxWriter writer;
  writer.input("x", {4}).node("Relu", {"x"}, {"a"}).node("Relu", {"a"}, {"b"}, {}, "same");
  writer.node("Relu", {"b"}, {"c"}, {}, "same").node("Relu", {"c"}, {"d"}, {}, "same_2").output("d");
  const Model model = parse(writer);
  std::vector<std::string> names;
  for (const Node& node : model.nodes) names.push_back(node.name);
  CHECK(names[0] == "Relu_0");
  CHECK(names[1] == "same");
  std::sort(names.begin(), names.end());
  CHECK(std::unique(names.begin(), names.end()) == names.end());
}

TEST_CASE("damaged files are refused, never believed") {
  const std::string good = small_network([](OnnxWriter& w) { w.weight("conv.weight", {4, 3, 3, 3}); }).bytes();
  CHECK(complaint(good) == "accepted");
  SUBCASE("cut anywhere") {
    for (std::size_t size = 0; size + 1 < good.size(); ++size) {
      CAPTURE(size);
      CHECK(complaint(good.substr(0, size)) != "accepted");
    }
  }
  SUBCASE("each byte changed in three ways: an answer or an error, nothing else") {
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const char mask : {'\x01', '\x80', '\xff'}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ mask);
        static_cast<void>(complaint(bad));
      }
    }
  }
  SUBCASE("other files") {
    CHECK(complaint("{\"format\": \"trainyard-graph/1\"}").find("onnx: this is not an ONNX model") == 0);
    CHECK(complaint(std::string(100, '\0')).find("onnx: this is not an ONNX model") == 0);
    CHECK(complaint(std::string(100, '\xff')).find("onnx: this is not an ONNX model") == 0);
    CHECK(complaint(std::string{"\x08\x08"}).find("onnx: this is not an ONNX model: it holds no graph") == 0);
  }
  SUBCASE("a length of 2^63") {
    CHECK(complaint(std::string{"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"}).find("onnx: ") == 0);
  }
  SUBCASE("sizes beyond any use") {
    const std::int64_t huge = std::int64_t{1} << 62;
    CHECK(complaint(OnnxWriter{}.input("x", {huge}).node("Relu", {"x"}, {"y"})) ==
          "onnx: 'x' has a dimension of 4611686018427387904");
    const std::int64_t large = std::int64_t{1} << 39;
    CHECK(complaint(OnnxWriter{}.input("x", {large, large}).node("Relu", {"x"}, {"y"})).find("too-large: ") == 0);
    CHECK(complaint(OnnxWriter{}
                        .input("x", {4})
                        .literal("n", {large, large})
                        .node("ConstantOfShape", {"n"}, {"z"})
                        .node("Add", {"x", "z"}, {"y"})
                        .output("y"))
              .find("too-large: ") == 0);
  }
}
