#include <doctest/doctest.h>

#include <string>

#include "trainyard/model/forward_cost.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

double matmul_flops(const std::string& spec) {
  const Model model = make_network(spec);
  Flops sum;
  for (const auto& node : model.nodes) sum += forward_cost(model, node).matmul_flops;
  return sum.value;
}

/// Multiply-adds of one sample, in units of 10^9.
double gmacs(const std::string& network) { return matmul_flops(network + ":batch=1") / 2e9; }

}  // namespace

TEST_CASE("the convolutional networks take the multiply-adds that torchvision publishes") {
  CHECK(gmacs("alexnet") == doctest::Approx(0.714).epsilon(0.001));
  CHECK(gmacs("vgg16") == doctest::Approx(15.47).epsilon(0.001));
  CHECK(gmacs("vgg19") == doctest::Approx(19.632).epsilon(0.0001));
  CHECK(gmacs("googlenet") == doctest::Approx(1.498).epsilon(0.001));
  CHECK(gmacs("squeezenet1_1") == doctest::Approx(0.349).epsilon(0.002));
  CHECK(gmacs("inception_v3") == doctest::Approx(5.713).epsilon(0.0001));
  CHECK(gmacs("resnet18") == doctest::Approx(1.814).epsilon(0.001));
  CHECK(gmacs("resnet34") == doctest::Approx(3.664).epsilon(0.001));
  CHECK(gmacs("resnet50") == doctest::Approx(4.089).epsilon(0.0001));
  CHECK(gmacs("resnet101") == doctest::Approx(7.801).epsilon(0.0001));
  CHECK(gmacs("resnet152") == doctest::Approx(11.514).epsilon(0.0001));
  CHECK(gmacs("densenet121") == doctest::Approx(2.834).epsilon(0.001));
  CHECK(gmacs("mobilenet_v2") == doctest::Approx(0.301).epsilon(0.002));
  CHECK(gmacs("vit_b_16") == doctest::Approx(17.564).epsilon(0.0001));
}

TEST_CASE("NASNet-A takes the multiply-adds of its paper") {
  CHECK(gmacs("nasnet_mobile") == doctest::Approx(0.564).epsilon(0.001));  // 564 M
  CHECK(gmacs("nasnet_large") == doctest::Approx(23.8).epsilon(0.002));    // 23.8 B
}

TEST_CASE("a GPT-2 step takes the products of its layers") {
  // A layer takes 12 d^2 multiply-adds a token, and 2 S d for the scores and their use; the output takes V d. Here d =
  // 64, S = 16, V = 100.
  const double tokens = 2 * 16;
  const double per_token = 3 * (12 * 64 * 64 + 2 * 16 * 64) + 100 * 64;
  CHECK(matmul_flops("gpt2:batch=2,seq=16,layers=3,hidden=64,heads=4,vocabulary=100") == 2 * tokens * per_token);
}

TEST_CASE("GELU in parts is eight nodes in place of one, and no products more") {
  const std::string spec = "gpt2:batch=2,seq=16,layers=3,hidden=64,heads=4,vocabulary=100";
  const Model whole = make_network(spec), parts = make_network(spec + ",gelu_in_parts=1");
  CHECK(parts.nodes.size() == whole.nodes.size() + 3 * 7);
  CHECK(matmul_flops(spec + ",gelu_in_parts=1") == matmul_flops(spec));
}

TEST_CASE("large language models take the published FLOPs a token") {
  // A token takes 2 FLOPs for each matrix parameter, 4 S d a layer for scores and their use without a causal mask, and
  // 2 V d for the output.
  CHECK(matmul_flops("gpt3_small") == 2048 * 322'561'536.);
  CHECK(matmul_flops("gpt3_175b") == 2048 * 358'791'143'424.);
  CHECK(matmul_flops("llama2_7b") == 4096 * 15'361'638'400.);
  CHECK(matmul_flops("llama2_70b") == 4096 * 148'163'788'800.);
  CHECK(matmul_flops("llama3_8b") == 8192 * 19'304'284'160.);
  CHECK(matmul_flops("llama3_405b") == 8192 * 875'141'529'600.);
}

TEST_CASE("mixtures of experts take the FLOPs of the experts that a token goes to") {
  // With balanced loads, each of 8 experts takes 1024 of 4096 tokens (two experts a token).
  CHECK(matmul_flops("mixtral_8x7b") == 4096 * 27'644'657'664.);
  CHECK(matmul_flops("deepseek_v3") == 4096 * 93'717'397'504.);
  // A capacity larger by a quarter adds a quarter to the experts' products, filled or not: 2 experts x 3 x 2 x 4096 x
  // 14336 FLOPs a token and layer.
  CHECK(matmul_flops("mixtral_8x7b:capacity=125") == 4096 * (27'644'657'664. + 32 * 0.25 * 2 * 6 * 4096 * 14'336));
}

TEST_CASE("fused attention takes the products of the scores that a causal mask leaves, half of them") {
  // Scores and their use take 4 S d FLOPs a token and layer.
  const double scores = 4096. * 32 * 4 * 4096 * 4096;
  CHECK(matmul_flops("llama2_7b:fused=1") == matmul_flops("llama2_7b") - scores / 2);
  const double of_gpt = 1024. * 12 * 4 * 1024 * 768;
  CHECK(matmul_flops("gpt2:batch=1,fused=1") == matmul_flops("gpt2:batch=1") - of_gpt / 2);
  // Without a causal mask all scores are computed.
  for (const std::string network : {"bert_base", "vit_b_16", "t5_small:targets=1"}) {
    CAPTURE(network);
    const std::string fused = network + (network.find(':') == std::string::npos ? ":" : ",") + "fused=1";
    const double causal = network.starts_with("t5") ? 16. * 6 * 4 * 512 : 0;  // the decoder's single target
    CHECK(matmul_flops(fused) == matmul_flops(network) - causal / 2);
  }
  CHECK(matmul_flops("deepseek_v3:fused=1") == 4096 * (93'717'397'504. - 20'468'203'520. / 2));
}

TEST_CASE("Wide-ResNet takes the FLOPs of its convolutions") {
  CHECK(matmul_flops("wide_resnet50:base=160,batch=1") == 83'611'729'920.);
  CHECK(matmul_flops("wide_resnet50:batch=1") == 333'245'808'640.);
  CHECK(matmul_flops("wide_resnet101:batch=1") == 4'518'165'053'440.);
}

TEST_CASE("a step of BERT-large over 16 x 384 tokens takes 4339.7 GFLOP") {
  const double per_token = 24. * 12 * 1024 * 1024 + 1024. * 1024 + 1024. * 30522 + 24. * 2 * 384 * 1024;
  CHECK(matmul_flops("bert_large") == 2 * 6144 * per_token);
}

TEST_CASE("a fused encoder takes as many multiply-adds as an unrolled one") {
  const std::string sizes = "layers=3,hidden=16,steps=5,vocabulary=20,batch=4";
  CHECK(matmul_flops("gnmt:" + sizes) == matmul_flops("gnmt:fused=1," + sizes));
  CHECK(matmul_flops("nmt:" + sizes) == matmul_flops("nmt:fused=1," + sizes));
}

TEST_CASE("twice the steps of a language model take twice the multiply-adds") {
  CHECK(matmul_flops("rnnlm:steps=8") == 2 * matmul_flops("rnnlm:steps=4"));
}
