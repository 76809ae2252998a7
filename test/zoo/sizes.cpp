#include <doctest/doctest.h>

#include <string>

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
  CHECK(parameters("inception_v3") == 23'834'568);  // 27 161 264 less the auxiliary head's 3 326 696
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
  // A block of 512 channels in and out: 512 x 128 + 9 x 128 x 128 + 128 x 512 weights and 2 (128 + 128 + 512) of the
  // norms = 65 536 + 147 456 + 65 536 + 1 536 = 280 064; 60 192 808 + 16 x 280 064.
  CHECK(parameters("resnet200") == 64'673'832);
}

TEST_CASE("the NASNet-A presets have the parameters of their published weights") {
  CHECK(parameters("nasnet_mobile") == 5'289'978);
  CHECK(parameters("nasnet_large") == 88'753'150);
}

TEST_CASE("GPT-2 has the published parameters in all four sizes") {
  // 50257 x 768 + 1024 x 768 + 12 (12 x 768^2 + 13 x 768) + 2 x 768; the output uses the embedding's weights
  CHECK(parameters("gpt2") == 124'439'808);
  CHECK(parameters("gpt2_medium") == 354'823'168);
  CHECK(parameters("gpt2_large") == 774'030'080);
  CHECK(parameters("gpt2_xl") == 1'557'611'200);
}

TEST_CASE("BERT has the published parameters under each head") {
  // Embeddings (30522 + 512 + 2) 768 + 2 x 768; 12 layers of 12 x 768^2 + 13 x 768; pooler 768^2 + 768.
  CHECK(parameters("bert_base:head=0") == 109'482'240);
  // Without the pooler (590 592); transform 590 592 + 1 536, bias 30 522.
  CHECK(parameters("bert_base") == 109'482'240 + 1'536 + 30'522);
  // The decoder's own weights: 30522 x 768 more.
  CHECK(parameters("bert_base:head=2") == 109'514'298 + 23'440'896);
  CHECK(parameters("bert_large:head=0") == 335'141'888);
  CHECK(parameters("bert_large:head=2") == 366'428'986);
}

TEST_CASE("the recurrent networks have the parameters of their cells") {
  // Embedding 10000 x 2048, two cells of (4096 + 1) 8192, output (2048 + 1) 10000.
  CHECK(parameters("rnnlm") == 20'480'000 + 2 * 33'562'624 + 20'490'000);
  // 4 hidden (inputs + hidden + 1) per cell with hidden 4, vocabulary 10: two cells of the encoder (4 + 4 + 1) 16 each;
  // the decoder's (8 + 4 + 1) 16 and (4 + 4 + 1) 16; two embeddings 40; attention 16 and (8 + 1) 4; output (4 + 1) 10.
  CHECK(parameters("nmt:layers=2,hidden=4,vocabulary=10,steps=3") == 2 * 144 + 208 + 144 + 2 * 40 + 16 + 36 + 50);
  // GNMT's first encoder layer: two cells of half the width, 8 (4 + 2 + 1) each, instead of 144.
  CHECK(parameters("gnmt:layers=2,hidden=4,vocabulary=10,steps=3") == 2 * 56 + 144 + 208 + 144 + 2 * 40 + 16 + 36 + 50);
  // Fused, each of the 4 gates has a second bias: 16 more per layer (2 x 8 in the bidirectional one).
  CHECK(parameters("gnmt:layers=2,hidden=4,vocabulary=10,steps=3,fused=1") ==
        parameters("gnmt:layers=2,hidden=4,vocabulary=10,steps=3") + 32);
}

TEST_CASE("the Transformer has the parameters of its layers") {
  // Embeddings 2 x 32000 x 512, output 512 x 32000; attention 4 (512^2 + 512) = 1 050 624; feed-forward
  // 2 x 512 x 2048 + 2048 + 512 = 2 099 712; norms of 1024: encoder 2 a layer, decoder 3, one after each stack.
  CHECK(parameters("transformer") == 3 * 16'384'000 + 6 * (1'050'624 + 2'099'712 + 2 * 1'024) +
                                         6 * (2 * 1'050'624 + 2'099'712 + 3 * 1'024) + 2 * 1'024);
}
