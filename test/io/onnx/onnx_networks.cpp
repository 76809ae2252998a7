#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/onnx/onnx.hpp"
#include "trainyard/model/forward_cost.hpp"

using namespace trainyard;

namespace {

struct File {
  std::string name;
  std::size_t nodes, constants, outputs;  // counts of the file, with its Constant nodes; 0 outputs: not counted
  std::int64_t parameters;
  bool inference;  // whether the file shows that it was exported for inference
};

// Nodes and outputs are counted with the onnx package. Parameters are num_params of torchvision's models, less those of
// batch norms that an inference export has folded; for other networks they are summed over the layers.
const std::vector<File>& files() {
  static const std::vector<File> kFiles = {
      {"alexnet_b64.eval", 20, 0, 20, 61100840, false},
      {"alexnet_b64.train", 26, 4, 28, 61100840, false},
      {"vgg19_b64.eval", 44, 0, 44, 143667240, false},
      {"vgg19_b64.train", 50, 4, 52, 143667240, false},
      {"squeezenet1_1_b64.eval", 65, 0, 65, 1235496, false},
      {"squeezenet1_1_b64.train", 68, 2, 69, 1235496, false},
      {"googlenet_b64.eval", 139, 0, 139, 6616552, true},
      {"googlenet_b64.train", 199, 2, 314, 6624904, false},
      {"inception_v3_b32.eval", 233, 9, 233, 23816280, true},
      {"inception_v3_b32.train", 330, 11, 519, 23834568, false},
      {"resnet50_b32.eval", 122, 0, 122, 25530024, true},
      {"resnet50_b32.train", 175, 0, 281, 25557032, false},
      {"resnet152_b32.eval", 360, 0, 360, 60116648, true},
      {"resnet152_b32.train", 515, 0, 825, 60192808, false},
      {"vit_b_16_b32.eval", 952, 247, 952, 86567656, false},
      {"vit_b_16_b32.train", 1562, 546, 1599, 86567656, false},
      {"transformer6_b64_s32.eval", 1182, 294, 1182, 93292544, false},
      {"transformer6_b64_s32.train", 2221, 810, 2281, 93292544, false},
      {"rnnlm2x2048_unroll_b64_t32.eval", 968, 128, 1160, 108095248, false},
      {"rnnlm2x2048_unroll_b64_t32.train", 1161, 256, 1417, 108095248, false},
      {"rnnlm2x2048_lstm_b64_t32.eval", 27, 14, 31, 108111632, false},
      {"nmt4x1024_attn_b64_t32.eval", 2285, 299, 2677, 170737920, false},
      {"nmt4x1024_attn_b64_t32.train", 2620, 515, 3012, 170737920, false},
      {"bert_large_dyn.eval", 2685, 633, 0, 366428986, false},
      {"bert_large_dyn.train", 2806, 779, 2879, 366428986, false},
      {"bert_base_dyn.train", 1426, 395, 0, 132955194, false},
      {"nmt4x1024_unroll_b64_t32.eval", 4442, 456, 5306, 170721536, false},
      {"nmt4x1024_unroll_b64_t32.train", 4444, 456, 5308, 170721536, false},
  };
  return kFiles;
}

/// The network's file in the project's data, else in the reference data.
std::optional<std::filesystem::path> find(const std::string& name) {
  const auto path = test::source_dir() / "data" / "onnx" / (name + ".onnx.gz");
  if (std::filesystem::exists(path)) return path;
  return test::reference_data("onnx/" + name + ".onnx.gz");
}

OnnxOptions options_for(const std::string& name) {
  OnnxOptions options;
  if (name.find("_dyn") != std::string::npos) options.bind = {{"N", 16}, {"S", 384}};
  return options;
}

double macs(const Model& model) {
  double flops = 0;
  for (const Node& node : model.nodes) flops += forward_cost(model, node).matmul_flops.value;
  return flops / 2;
}

}  // namespace

TEST_CASE("every published network is read with all its shapes and parameters") {
  std::size_t missing = 0;
  for (const File& file : files()) {
    CAPTURE(file.name);
    const auto path = find(file.name);
    if (!path) {
      ++missing;
      continue;
    }
    OnnxOptions options = options_for(file.name);
    options.simplify = false;
    const Model model = read_onnx(*path, options);
    // The reader turns Constant nodes, and Identity nodes of weights, into values: they are not counted.
    std::size_t outputs = 0, shaped = 0;
    for (const Node& node : model.nodes) {
      for (const ValueId output : node.outputs) {
        outputs += !output.is_none();
        shaped += !output.is_none() && model.values[output].shape_known;
      }
    }
    CHECK(shaped == outputs);
    const bool merged = file.name == "bert_large_dyn.eval";  // 98 Identity nodes of weights
    CHECK(model.nodes.size() == file.nodes - file.constants - (merged ? 98 : 0));
    if (file.outputs > 0) CHECK(outputs == file.outputs - file.constants);
    CHECK(model.parameter_count() == file.parameters);
    CHECK(model.from_inference_export == file.inference);
    if (file.inference) CHECK(model.notes.front().find("exported for inference") != std::string::npos);
  }
  if (missing > 0) test::report_skipped(std::to_string(missing) + " of 28 files are not in data/onnx");
}

TEST_CASE("multiply-adds of an image are those that are published for each network") {
  // GMAC of torchvision's weight metadata (_ops: 0.714, 1.498, 0.349, 4.089, 11.514, 19.632, 5.713, 17.564), with one
  // more digit.
  const std::map<std::string, std::pair<double, double>> published = {
      {"alexnet_b64", {64, 0.7142}},      {"googlenet_b64", {64, 1.4984}},  {"squeezenet1_1_b64", {64, 0.3492}},
      {"resnet50_b32", {32, 4.0892}},     {"resnet152_b32", {32, 11.5136}}, {"vgg19_b64", {64, 19.6321}},
      {"inception_v3_b32", {32, 5.7132}}, {"vit_b_16_b32", {32, 17.5638}}};
  for (const auto& entry : published) {
    const auto& name = entry.first;
    const auto& row = entry.second;
    CAPTURE(name);
    const Model model = read_onnx(*find(name + ".train"));
    CHECK(std::abs(macs(model) / row.first / 1e9 - row.second) < 5e-5);
  }
}

TEST_CASE("BERT-large with bound dimensions multiplies as its layers say") {
  const Model model = read_onnx(*find("bert_large_dyn.train"), options_for("bert_large_dyn.train"));
  // 6144 tokens. A token passes 24 layers of 12 * 1024^2 weights and a head of 1024^2 and 1024 * 30522. Attention over
  // 384 tokens with 1024 features, for scores and for sums, 24 times: 2 * 24 * 384 * 1024.
  const double expected = 6144.0 * (24.0 * 12 * 1024 * 1024 + 1024.0 * 1024 + 1024.0 * 30522 + 2.0 * 24 * 384 * 1024);
  CHECK(macs(model) == expected);
}

TEST_CASE("what exporters take apart is put together again") {
  const auto counts = [](const std::string& name) {
    std::map<std::string, int> result;
    for (const Node& node : read_onnx(*find(name), options_for(name)).nodes) ++result[node.type];
    return result;
  };
  auto bert = counts("bert_large_dyn.train");
  CHECK(bert["LayerNormalization"] == 50);  // 2 in each of 24 layers, the embedding's, the head's
  CHECK(bert["Gelu"] == 25);                // 24 layers and the head
  CHECK(bert["Linear"] == 146);             // 6 in each of 24 layers, 2 in the head
  CHECK(bert["Shape"] + bert["Unsqueeze"] + bert["ReduceMean"] + bert["Erf"] == 0);
  auto vit = counts("vit_b_16_b32.train");
  CHECK(vit["Dropout"] == 0);  // 37 with a ratio of 0 are removed
  CHECK(vit["LayerNormalization"] == 25);
  auto inception = counts("inception_v3_b32.train");
  CHECK(inception["Pad"] == 0);
  CHECK(inception["AveragePool"] == 9);
}

TEST_CASE("nodes are put into the layers that they come from") {
  const auto layers = [](const std::string& name) {
    std::map<std::string, int> result;
    for (const Node& node : read_onnx(*find(name), options_for(name)).nodes) ++result[node.layer];
    return result;
  };
  auto resnet = layers("resnet50_b32.train");
  CHECK(resnet["layer1.0"] == 12);  // 4 convolutions and norms, 3 Relu, 1 Add
  CHECK(resnet["layer4.2"] == 10);
  CHECK(resnet["fc"] == 1);
  CHECK(resnet.count("") == 0);
  CHECK(layers("vit_b_16_b32.train")["encoder.layers.encoder_layer_7"] > 0);
  CHECK(layers("googlenet_b64.train")["inception4a"] == 20);
  // All calls of an unrolled cell have the layer of the cell: embedding, two cells, dropout, output.
  CHECK(layers("rnnlm2x2048_unroll_b64_t32.train").size() == 5);
}

TEST_CASE("symbolic dimensions must be bound, all that are missing are named") {
  const auto message = [](std::map<std::string, std::int64_t> bind) -> std::string {
    try {
      read_onnx(*find("bert_base_dyn.train"), {.bind = std::move(bind)});
    } catch (const InputError& error) {
      CHECK(error.findings().front().at.file.find("bert_base_dyn") != std::string::npos);
      return error.findings().front().code + ": " + error.what() + " | " + error.findings().front().help;
    }
    return "read";
  };
  CHECK(message({}) ==
        "unbound-dimension: the sizes of these dimensions are not known: N, S | bind each to a number, "
        "such as N=32");
  CHECK(message({{"N", 4}}).find("not known: S |") != std::string::npos);
  CHECK(message({{"N", 4}, {"S", 8}}) == "read");
  CHECK(message({{"N", 4}, {"S", 8}, {"T", 8}}) ==
        "unknown-dimension: the file has no symbolic dimension 'T' | the file has: N, S");
  CHECK(message({{"N", 0}, {"S", 8}}).find("bad-dimension") == 0);
}
