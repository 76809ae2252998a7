#include <fmt/format.h>

#include <functional>
#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

constexpr double kGptDropout = 0.1;

/// The tanh approximation of GELU, x / 2 (1 + tanh(a (x + b x^3))), with each operation a kernel: NewGELUActivation of
/// Hugging Face's transformers.
ValueId gelu_in_parts(LayerBuilder& net, ValueId x) {
  const ValueId half = net.mul(x, net.opaque_constant({}));
  const ValueId cube = net.mul(net.append("Pow", {x, net.opaque_constant({})}), net.opaque_constant({}));
  const ValueId bent = net.tanh(net.mul(net.add(x, cube), net.opaque_constant({})));
  return net.mul(half, net.add(bent, net.opaque_constant({})));
}

/// Causal self-attention of a layer, added to x.
ValueId attended(LayerBuilder& net, ValueId x, const NetworkArguments& given) {
  const std::int64_t width = net.shape(x).back();
  const auto qkv = net.split(net.linear(net.layer_norm(x), 3 * width), 2, 3);
  const ValueId mixed =
      net.attention(qkv[0], qkv[1], qkv[2],
                    {.heads = given["heads"], .dropout = kGptDropout, .causal = true, .fused = given["fused"] != 0});
  return net.add(x, net.dropout(net.linear(mixed, width), kGptDropout));
}

ValueId block(LayerBuilder& net, ValueId x, const NetworkArguments& given) {
  x = attended(net, x, given);
  const std::int64_t width = net.shape(x).back();
  const ValueId inner = net.linear(net.layer_norm(x), 4 * width);
  const ValueId wide = given["gelu_in_parts"] != 0 ? gelu_in_parts(net, inner) : net.gelu(inner, true);
  return net.add(x, net.dropout(net.linear(wide, width), kGptDropout));
}

/// Layer i of a GPT with mixtures of experts: the last of every `every` feed-forward layers is a mixture.
ValueId expert_block(LayerBuilder& net, ValueId x, std::int64_t i, const NetworkArguments& given) {
  x = attended(net, x, given);
  const ValueId normed = net.layer_norm(x);
  const ValueId fed = (i + 1) % given["every"] == 0
                          ? net.experts(normed, {.experts = given["experts"],
                                                 .chosen = given["chosen"],
                                                 .inner = given["inner"],
                                                 .capacity = given["capacity"],
                                                 .gated = false,
                                                 .router = Experts::Router::softmax,
                                                 .activation = Experts::Activation::gelu})
                          : net.linear(net.gelu(net.linear(normed, given["inner"]), true), given["hidden"]);
  return net.add(x, net.dropout(fed, kGptDropout));
}

using Block = std::function<ValueId(LayerBuilder&, ValueId x, std::int64_t i)>;

Model gpt_of(const NetworkArguments& given, const Block& layer) {
  const std::int64_t seq = given["seq"], width = given["hidden"];
  require_positions(seq, given["positions"]);
  LayerBuilder net{given.network()};
  const ValueId ids = net.input("ids", {given["batch"], seq}, DataType::int64);
  const ValueId positions = net.input("positions", {1, seq}, DataType::int64);
  net.at("embedding");
  const ValueId words = net.parameter("wte", {given["vocabulary"], width});
  const ValueId places = net.parameter("wpe", {given["positions"], width});
  const ValueId placed = net.embedding(places, positions);
  ValueId x = net.dropout(net.add(net.embedding(words, ids), placed), kGptDropout);
  for (std::int64_t i = 0; i < given["layers"]; ++i) {
    net.at("h." + std::to_string(i));
    x = layer(net, x, i);
  }
  net.at("head");
  x = net.layer_norm(x);
  return std::move(net).finish({net.matmul(x, net.transpose(words, {1, 0}))});  // tied to the embedding
}

Model gpt2(const NetworkArguments& given) {
  return gpt_of(given, [&](LayerBuilder& net, ValueId x, std::int64_t) { return block(net, x, given); });
}

Model gshard(const NetworkArguments& given) {
  return gpt_of(given, [&](LayerBuilder& net, ValueId x, std::int64_t i) { return expert_block(net, x, i, given); });
}

NetworkParameter gelu_parameter() {
  return {"gelu_in_parts", 0, 0, 1, "1: the activation is eight elementwise ops, as in Hugging Face's transformers"};
}

Network gpt2_preset(const char* name, const char* summary, std::int64_t layers, std::int64_t width,
                    std::int64_t heads) {
  return {name,
          summary,
          "Radford et al., Language Models are Unsupervised Multitask Learners, 2019",
          {batch_parameter(8), seq_parameter(1024), layers_parameter(layers), hidden_parameter(width),
           heads_parameter(heads), vocabulary_parameter(50'257), positions_parameter(1024), gelu_parameter(),
           fused_parameter()},
          &gpt2};
}

}  // namespace

std::vector<Network> gpt3_networks() {
  const auto preset = [](const char* name, const char* size, std::int64_t layers, std::int64_t width,
                         std::int64_t heads) {
    return Network{
        name,
        fmt::format("GPT-3 {}: {} layers of width {}, dense attention, tied output weights", size, layers, width),
        "Brown et al., Language Models are Few-Shot Learners, 2020, table 2.1",
        {batch_parameter(1), seq_parameter(2048), layers_parameter(layers), hidden_parameter(width),
         heads_parameter(heads), vocabulary_parameter(50'257), positions_parameter(2048), gelu_parameter(),
         fused_parameter()},
        &gpt2};
  };
  return {
      preset("gpt3_small", "small", 12, 768, 12),
      preset("gpt3_medium", "medium", 24, 1024, 16),
      preset("gpt3_large", "large", 24, 1536, 16),
      preset("gpt3_xl", "XL (16 heads, as the paper's 24 do not divide the width)", 24, 2048, 16),
      preset("gpt3_2_7b", "2.7B", 32, 2560, 32),
      preset("gpt3_6_7b", "6.7B", 32, 4096, 32),
      preset("gpt3_13b", "13B (width 5120, as the paper's 5140 is not a multiple of its heads)", 40, 5120, 40),
      preset("gpt3_175b", "175B", 96, 12'288, 96),
  };
}

std::vector<Network> gpt2_networks() {
  return {
      gpt2_preset("gpt2", "GPT-2 small: 12 layers of width 768, tied output weights", 12, 768, 12),
      gpt2_preset("gpt2_medium", "GPT-2 medium: 24 layers of width 1024, tied output weights", 24, 1024, 16),
      gpt2_preset("gpt2_large", "GPT-2 large: 36 layers of width 1280, tied output weights", 36, 1280, 20),
      gpt2_preset("gpt2_xl", "GPT-2 XL: 48 layers of width 1600, tied output weights", 48, 1600, 25),
  };
}

std::vector<Network> gshard_networks() {
  const auto preset = [](const char* name, const char* size, std::int64_t layers, std::int64_t width,
                         std::int64_t experts) {
    return Network{
        name,
        fmt::format("GShard {}: a GPT, 2 of {} experts for each token in every second layer", size, experts),
        "Lepikhin et al., GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding, 2021; "
        "sizes as in Zheng et al., Alpa, 2022, table 6",
        {batch_parameter(8),
         seq_parameter(1024),
         layers_parameter(layers),
         hidden_parameter(width),
         heads_parameter(16),
         {"inner", 8 * width, 1, 1'048'576, "inner width of the feed-forward layers and of each expert"},
         experts_parameter(experts),
         chosen_parameter(2),
         capacity_parameter(100),
         {"every", 2, 1, 1024, "one feed-forward layer in this many has experts (the last of them)"},
         vocabulary_parameter(32'000),
         positions_parameter(1024),
         fused_parameter()},
        &gshard};
  };
  return {
      preset("gshard_380m", "380M", 8, 768, 8),   preset("gshard_690m", "690M", 8, 768, 16),
      preset("gshard_1_3b", "1.3B", 16, 768, 16), preset("gshard_2_4b", "2.4B", 16, 1024, 16),
      preset("gshard_10b", "10B", 16, 1536, 32),  preset("gshard_27b", "27B", 16, 2048, 48),
      preset("gshard_70b", "70B", 32, 2048, 64),
  };
}

}  // namespace trainyard::zoo
