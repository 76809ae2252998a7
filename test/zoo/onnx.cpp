// Compares zoo networks with ONNX files that another framework exported.

#include "trainyard/io/onnx/onnx.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>

#include "support/support.hpp"
#include "trainyard/model/forward_cost.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

struct Pair {
  std::string file, spec;
  std::map<std::string, std::int64_t> bind = {};
};

const Pair kPairs[] = {
    {"alexnet_b64", "alexnet:batch=64"},
    {"vgg19_b64", "vgg19:batch=64"},
    {"squeezenet1_1_b64", "squeezenet1_1:batch=64"},
    {"googlenet_b64", "googlenet:batch=64"},
    {"inception_v3_b32", "inception_v3:batch=32"},
    {"resnet50_b32", "resnet50:batch=32"},
    {"resnet152_b32", "resnet152:batch=32"},
    {"vit_b_16_b32", "vit_b_16:batch=32"},
    {"transformer6_b64_s32", "transformer:batch=64,seq=32"},
    {"bert_base_dyn", "bert_base:batch=4,seq=128,head=2", {{"N", 4}, {"S", 128}}},
    {"bert_large_dyn", "bert_large:batch=16,seq=384,head=2", {{"N", 16}, {"S", 384}}},
    {"rnnlm2x2048_unroll_b64_t32", "rnnlm:batch=64,steps=32"},
    {"nmt4x1024_unroll_b64_t32", "gnmt:batch=64,steps=32"},
    {"nmt4x1024_attn_b64_t32", "gnmt:batch=64,steps=32,fused=1"},
};

double matmul_flops(const Model& model) {
  Flops sum;
  for (const auto& node : model.nodes) sum += forward_cost(model, node).matmul_flops;
  return sum.value;
}

/// Counts nodes by kind, for kinds that have weights or move many bytes. Matrix products are one kind, because a file
/// may write a dense layer as Gemm or as MatMul.
std::map<std::string, int> kinds(const Model& model) {
  std::map<std::string, int> count;
  for (const auto& node : model.nodes) {
    if (node.type == "Gemm" || node.type == "Linear" || node.type == "MatMul") ++count["matrix product"];
    for (const char* kind : {"Conv", "BatchNormalization", "LayerNormalization", "Gelu", "Softmax", "LSTM", "Relu",
                             "MaxPool", "AveragePool", "Sigmoid", "Tanh"}) {
      if (node.type == kind) ++count[kind];
    }
  }
  return count;
}

}  // namespace

TEST_CASE("each network that another framework exported agrees with the zoo's in parameters, FLOPs and layers") {
  for (const Pair& pair : kPairs) {
    const auto path = test::source_dir() / "data" / "onnx" / (pair.file + ".train.onnx.gz");
    CAPTURE(pair.file);
    const Model exported = read_onnx(path, {.bind = pair.bind});
    const Model built = make_network(pair.spec);
    CHECK(built.parameter_count() == exported.parameter_count());
    CHECK(matmul_flops(built) == matmul_flops(exported));
    CHECK(kinds(built) == kinds(exported));
    CHECK(built.values[built.outputs[0]].shape == exported.values[exported.outputs[0]].shape);
  }
}
