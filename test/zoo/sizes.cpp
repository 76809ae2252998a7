#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

std::int64_t parameters(const std::string& spec) { return make_network(spec).parameter_count(); }

}  // namespace

TEST_CASE("LeNet-5 has the parameters of its layers") {
  // (5x5x1 + 1) 6 + (5x5x6 + 1) 16 + (400 + 1) 120 + (120 + 1) 84 + (84 + 1) 10 = 156 + 2416 + 48120 + 10164 + 850
  CHECK(parameters("lenet") == 61'706);
}

TEST_CASE("the convolutional networks have the parameters that torchvision publishes") {
  CHECK(parameters("alexnet") == 61'100'840);
  CHECK(parameters("vgg16") == 138'357'544);
  CHECK(parameters("vgg19") == 143'667'240);
  CHECK(parameters("squeezenet1_1") == 1'235'496);
  CHECK(parameters("googlenet") == 6'624'904);
  CHECK(parameters("inception_v3") == 23'834'568);  // 27 161 264 minus the auxiliary head's 3 326 696
  CHECK(parameters("resnet18") == 11'689'512);
  CHECK(parameters("resnet34") == 21'797'672);
  CHECK(parameters("resnet50") == 25'557'032);
  CHECK(parameters("resnet101") == 44'549'160);
  CHECK(parameters("resnet152") == 60'192'808);
  CHECK(parameters("densenet121") == 7'978'856);
  CHECK(parameters("mobilenet_v2") == 3'504'872);
  CHECK(parameters("vit_b_16") == 86'567'656);
}

TEST_CASE("ResNet-200 is ResNet-152 with 16 more blocks in its second stage") {
  // A block with 512 channels in and out has 512 x 128 + 9 x 128 x 128 + 128 x 512 weights and 2 (128 + 128 + 512) norm
  // parameters: 65 536 + 147 456 + 65 536 + 1 536 = 280 064. Total: 60 192 808 + 16 x 280 064.
  CHECK(parameters("resnet200") == 64'673'832);
}

TEST_CASE("the NASNet-A presets have the parameters of their published weights") {
  CHECK(parameters("nasnet_mobile") == 5'289'978);
  CHECK(parameters("nasnet_large") == 88'753'150);
}

TEST_CASE("GPT-2 has the published parameters in all four sizes") {
  // Words 50257 x 768, positions 1024 x 768, layers 12 (12 x 768^2 + 13 x 768), last norm 2 x 768; the output is tied
  // to the words.
  CHECK(parameters("gpt2") == 124'439'808);
  CHECK(parameters("gpt2_medium") == 354'823'168);
  CHECK(parameters("gpt2_large") == 774'030'080);
  CHECK(parameters("gpt2_xl") == 1'557'611'200);
}

TEST_CASE("GPT-3 has the published parameters in all eight sizes") {
  // Words 50257 x 768, positions 2048 x 768, layers 12 (12 x 768^2 + 13 x 768), last norm 2 x 768.
  CHECK(parameters("gpt3_small") == 125'226'240);
  CHECK(parameters("gpt3_medium") == 355'871'744);
  CHECK(parameters("gpt3_large") == 760'300'032);
  CHECK(parameters("gpt3_xl") == 1'315'723'264);
  CHECK(parameters("gpt3_2_7b") == 2'651'553'280);
  CHECK(parameters("gpt3_6_7b") == 6'658'404'352);
  CHECK(parameters("gpt3_13b") == 12'853'386'240);
  CHECK(parameters("gpt3_175b") == 174'604'259'328);
}

TEST_CASE("Llama has the published parameters in all sizes") {
  // A layer of 7B has 4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096 = 202 383 360. Then 32 layers, embedding and output 2 x
  // 32000 x 4096, and the last norm's 4096.
  CHECK(parameters("llama2_7b") == 32 * 202'383'360LL + 2 * 32'000 * 4'096 + 4'096);
  CHECK(parameters("llama2_7b") == 6'738'415'616);
  CHECK(parameters("llama2_13b") == 13'015'864'320);
  CHECK(parameters("llama2_70b") == 68'976'648'192);
  // A layer of 8B has 2 x 4096^2 + 2 x 4096 x 1024 (8 key heads for 32) + 3 x 4096 x 14336 + 2 x 4096 = 218 112 000.
  CHECK(parameters("llama3_8b") == 32 * 218'112'000LL + 2 * 128'256 * 4'096 + 4'096);
  CHECK(parameters("llama3_8b") == 8'030'261'248);
  CHECK(parameters("llama3_70b") == 70'553'706'496);
  CHECK(parameters("llama3_405b") == 405'853'388'800);
}

TEST_CASE("T5 has the parameters of its published weights") {
  // Encoder layer 4 x 512 x 512 + 2 x 512 x 2048 + 2 x 512, decoder layer 8 x 512 x 512 + 2 x 512 x 2048 + 3 x 512, six
  // of each. Position biases 2 x 32 buckets x 8 heads, two last norms, words 32128 x 512.
  CHECK(parameters("t5_small") == 6 * (3'146'752 + 4'195'840) + 2 * 256 + 2 * 512 + 32'128 * 512);
  CHECK(parameters("t5_small") == 60'506'624);
  CHECK(parameters("t5_base") == 222'903'552);
  CHECK(parameters("t5_large") == 737'668'096);
  CHECK(parameters("t5_3b") == 2'851'598'336);
  CHECK(parameters("t5_11b") == 11'307'321'344);
}

TEST_CASE("Wide-ResNet has the parameters of Alpa's sizes") {
  CHECK(parameters("wide_resnet50:base=160") == 254'123'104);
  CHECK(parameters("wide_resnet50:base=224") == 495'046'176);
  CHECK(parameters("wide_resnet50") == 1'005'653'184);
  CHECK(parameters("wide_resnet50:base=448") == 1'965'011'008);
  CHECK(parameters("wide_resnet50:base=640") == 4'000'937'344);
  CHECK(parameters("wide_resnet50:widening=16") == 6'727'679'424);
  CHECK(parameters("wide_resnet101") == 12'633'386'944);
  // Without widening, with a base of 64 and 1000 classes, it is ResNet-50.
  CHECK(parameters("wide_resnet50:base=64,widening=1,classes=1000") == parameters("resnet50"));
}

TEST_CASE("BERT has the published parameters under each head") {
  // Embeddings (30522 + 512 + 2) 768 + 2 x 768; 12 layers of 12 x 768^2 + 13 x 768; pooler 768^2 + 768.
  CHECK(parameters("bert_base:head=0") == 109'482'240);
  // The pooler (590 592) is replaced by a transform 590 592 + 1 536 and a bias 30 522.
  CHECK(parameters("bert_base") == 109'482'240 + 1'536 + 30'522);
  // A separate decoder matrix adds 30522 x 768.
  CHECK(parameters("bert_base:head=2") == 109'514'298 + 23'440'896);
  CHECK(parameters("bert_large:head=0") == 335'141'888);
  CHECK(parameters("bert_large:head=2") == 366'428'986);
}

TEST_CASE("the recurrent networks have the parameters of their cells") {
  // Embedding 10000 x 2048, two cells of (4096 + 1) 8192, output (2048 + 1) 10000.
  CHECK(parameters("rnnlm") == 20'480'000 + 2 * 33'562'624 + 20'490'000);
  // A cell has 4 hidden (inputs + hidden + 1), here with hidden 4 and vocabulary 10. Encoder: two cells of (4 + 4 + 1)
  // 16. Decoder: (8 + 4 + 1) 16 and (4 + 4 + 1) 16. Two embeddings of 40; attention 16 and (8 + 1) 4; output (4 + 1)
  // 10.
  CHECK(parameters("nmt:layers=2,hidden=4,vocabulary=10,steps=3") == 2 * 144 + 208 + 144 + 2 * 40 + 16 + 36 + 50);
  // GNMT's first encoder layer has two cells of half the width, 8 (4 + 2 + 1) each, instead of 144.
  CHECK(parameters("gnmt:layers=2,hidden=4,vocabulary=10,steps=3") == 2 * 56 + 144 + 208 + 144 + 2 * 40 + 16 + 36 + 50);
  // Fused, each of the 4 gates has a second bias: 16 more a layer (2 x 8 in the bidirectional one).
  CHECK(parameters("gnmt:layers=2,hidden=4,vocabulary=10,steps=3,fused=1") ==
        parameters("gnmt:layers=2,hidden=4,vocabulary=10,steps=3") + 32);
}

TEST_CASE("the Transformer has the parameters of its layers") {
  // Embeddings 2 x 32000 x 512, output 512 x 32000. Attention 4 (512^2 + 512) = 1 050 624; feed-forward 2 x 512 x 2048
  // + 2048 + 512 = 2 099 712. Norms of 1024: two in an encoder layer, three in a decoder layer, one after each stack.
  CHECK(parameters("transformer") == 3 * 16'384'000 + 6 * (1'050'624 + 2'099'712 + 2 * 1'024) +
                                         6 * (2 * 1'050'624 + 2'099'712 + 3 * 1'024) + 2 * 1'024);
}

TEST_CASE("mixtures of experts have the published parameters") {
  // A layer of Mixtral: attention 2 x 4096^2 + 2 x 4096 x 1024, experts 8 x 3 x 4096 x 14336, router 8 x 4096.
  CHECK(parameters("mixtral_8x7b") ==
        32 * (41'943'040LL + 8 * 176'160'768LL + 32'768 + 2 * 4096) + 2 * 32'000 * 4096 + 4096);
  CHECK(parameters("mixtral_8x7b") == 46'702'792'704);
  // With 2 experts, the parameters that a token uses: 12.9 billion, minus the routers' rows for 6 experts.
  CHECK(parameters("mixtral_8x7b:experts=2") == 12'879'925'248 - 32 * 6 * 4096);
  CHECK(parameters("switch_base") == 7'439'891'712);
  CHECK(parameters("switch_large") == 27'153'787'904);
  CHECK(parameters("switch_c") == 1'571'375'798'688);
}

TEST_CASE("GShard's GPTs have the parameters that Alpa's table rounds") {
  // A layer has 4 d^2 + 4 d in attention and 4 d in norms. Every second layer has a dense feed-forward of 16 d^2 + 9 d,
  // the others a router of d e and 16 d^2 for each expert. Embeddings of 32,000 words and 1,024 positions, a last norm
  // of 2 d.
  const auto sum = [](std::int64_t layers, std::int64_t d, std::int64_t e) {
    return layers * (4 * d * d + 8 * d) + layers / 2 * (16 * d * d + 9 * d + d * e + e * 16 * d * d) + 33'024 * d +
           2 * d;
  };
  CHECK(parameters("gshard_380m") == sum(8, 768, 8));
  CHECK(parameters("gshard_2_4b") == sum(16, 1024, 16));
  CHECK(parameters("gshard_70b") == sum(32, 2048, 64));
  const std::pair<const char*, double> published[] = {
      {"gshard_380m", 0.38}, {"gshard_690m", 0.69}, {"gshard_1_3b", 1.3}, {"gshard_2_4b", 2.4},
      {"gshard_10b", 10},    {"gshard_27b", 27},    {"gshard_70b", 70}};
  for (const auto& each : published) {
    CAPTURE(each.first);
    CHECK(static_cast<double>(parameters(each.first)) / 1e9 == doctest::Approx(each.second).epsilon(0.04));
  }
}

TEST_CASE("DeepSeek-V3 has the published parameters") {
  // Attention: 7168 x 1536 + 1536 + 1536 x 128 x 192, 7168 x 576 + 512 + 512 x 128 x 256, 128 x 128 x 7168, in all 187
  // 107 328. An expert: 3 x 7168 x 2048 = 44 040 192. The router: 256 x 7168 + 256.
  const std::int64_t attention = 187'107'328, expert = 44'040'192, norms = 2 * 7168;
  CHECK(parameters("deepseek_v3") == 61 * (attention + norms) + 3 * 3 * 7168 * 18'432LL +
                                         58 * (257 * expert + 256 * 7168 + 256) + 2 * 129'280 * 7168LL + 7168);
  CHECK(parameters("deepseek_v3") == 671'026'419'200);
}

TEST_CASE("fused attention has no parameters more or less") {
  for (const std::string network :
       {"gpt2", "gpt3_6_7b", "gshard_380m", "bert_base", "t5_base", "switch_base", "vit_b_16", "transformer"}) {
    CAPTURE(network);
    CHECK(parameters(network + ":fused=1") == parameters(network));
  }
}

TEST_CASE("DLRM has the published tables and perceptrons") {
  // Tables of 187 767 399 rows of 128; perceptrons 13-512-256-128 and (27 x 26 / 2 + 128 = 479)-1024-1024-512-256-1.
  CHECK(parameters("dlrm_terabyte") == 187'767'399LL * 128 + 171'392 + 2'197'505);
  CHECK(parameters("dlrm_terabyte") == 24'036'595'969);
  CHECK(parameters("dlrm_kaggle") == 33'762'577LL * 16 + 475'985);
  CHECK(parameters("dlrm_kaggle") == 540'677'217);
}
