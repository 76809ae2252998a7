#include <optional>
#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

constexpr double kT5Dropout = 0.1;
constexpr std::int64_t kBuckets = 32;  // of relative positions

/// T5 and the Switch Transformers based on it. In the latter the last of every `every` feed-forward layers is a mixture
/// of experts, and the output has its own weights.
class T5 {
 public:
  explicit T5(const NetworkArguments& given, bool switches) : given_(given), switches_(switches) {}

  Model build() {
    const ValueId source = net_.input("src", {given_["batch"], seq_}, DataType::int64);
    const ValueId target = net_.input("tgt", {given_["batch"], targets_}, DataType::int64);
    net_.at("embedding");
    const ValueId words = net_.parameter("weight", {given_["vocabulary"], width_});
    ValueId x = net_.dropout(net_.embedding(words, source), kT5Dropout);
    ValueId y = net_.dropout(net_.embedding(words, target), kT5Dropout);
    net_.at("encoder.bias");
    const ValueId source_bias = relative_bias(seq_);
    for (std::int64_t i = 0; i < given_["layers"]; ++i) {
      net_.at("encoder." + std::to_string(i));
      x = feed_forward(attend(x, net_.rms_norm(x), {}, source_bias, false), i);
    }
    net_.at("encoder.norm");
    const ValueId memory = net_.dropout(net_.rms_norm(x), kT5Dropout);
    net_.at("decoder.bias");
    const ValueId target_bias = relative_bias(targets_);
    for (std::int64_t i = 0; i < given_["layers"]; ++i) {
      net_.at("decoder." + std::to_string(i));
      y = attend(y, net_.rms_norm(y), {}, target_bias, true);
      y = feed_forward(attend(y, net_.rms_norm(y), memory, ValueId::none(), false), i);
    }
    net_.at("head");
    y = net_.dropout(net_.rms_norm(y), kT5Dropout);
    if (switches_) return std::move(net_).finish({net_.linear(y, given_["vocabulary"], false)});
    y = net_.mul(y, net_.opaque_constant({}));                                       // times 1 / sqrt(hidden)
    return std::move(net_).finish({net_.matmul(y, net_.transpose(words, {1, 0}))});  // tied to the embedding
  }

 private:
  /// A learned number for each head and bucket of distances: [1, heads, length, length].
  ValueId relative_bias(std::int64_t length) {
    const ValueId table = net_.parameter("weight", {kBuckets, given_["heads"]});
    const ValueId buckets = net_.opaque_constant({length, length}, DataType::int64);
    return net_.unsqueeze(net_.transpose(net_.embedding(table, buckets), {2, 0, 1}), 0);
  }

  /// Attention of `normed` over itself or over the encoder's output, added to x.
  ValueId attend(ValueId x, ValueId normed, std::optional<ValueId> memory, ValueId bias, bool causal) {
    const std::int64_t heads = given_["heads"], inside = heads * given_["head_width"];
    const ValueId over = memory.value_or(normed);
    const ValueId q = net_.linear(normed, inside, false);
    const ValueId k = net_.linear(over, inside, false);
    const ValueId v = net_.linear(over, inside, false);
    const ValueId mixed = net_.attention(
        q, k, v,
        {.heads = heads, .dropout = kT5Dropout, .causal = causal, .bias = bias, .fused = given_["fused"] != 0});
    return net_.add(x, net_.dropout(net_.linear(mixed, width_, false), kT5Dropout));
  }

  ValueId feed_forward(ValueId x, std::int64_t layer) {
    const ValueId normed = net_.rms_norm(x);
    return net_.add(x, net_.dropout(fed_forward(normed, layer), kT5Dropout));
  }

  ValueId fed_forward(ValueId x, std::int64_t layer) {
    const bool gated = switches_ && given_["gated"] != 0;
    if (switches_ && (layer + 1) % given_["every"] == 0)
      return net_.experts(x, {.experts = given_["experts"],
                              .chosen = given_["chosen"],
                              .inner = given_["inner"],
                              .capacity = given_["capacity"],
                              .gated = gated,
                              .router = Experts::Router::softmax,
                              .activation = gated ? Experts::Activation::gelu : Experts::Activation::relu});
    ValueId wide = net_.linear(x, given_["inner"], false);
    wide = gated ? net_.gelu(wide, true) : net_.relu(wide);
    if (gated) wide = net_.mul(wide, net_.linear(x, given_["inner"], false));
    return net_.linear(net_.dropout(wide, kT5Dropout), width_, false);
  }

  const NetworkArguments& given_;
  bool switches_;
  std::int64_t seq_ = given_["seq"], targets_ = given_["targets"], width_ = given_["hidden"];
  LayerBuilder net_{given_.network()};
};

Model t5(const NetworkArguments& given) { return T5{given, false}.build(); }
Model switch_transformer(const NetworkArguments& given) { return T5{given, true}.build(); }

Network t5_preset(const char* name, const char* size, std::int64_t layers, std::int64_t width, std::int64_t inner,
                  std::int64_t heads, std::int64_t head_width) {
  return {name,
          std::string{"T5 "} + size + ": encoder and decoder with relative positions and RMS norms, tied weights",
          "Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020",
          {batch_parameter(16),
           seq_parameter(512),
           {"targets", 114, 1, 131'072, "tokens per answer (decoder)"},
           layers_parameter(layers, "layers of the encoder, and of the decoder"),
           hidden_parameter(width),
           heads_parameter(heads),
           {"head_width", head_width, 1, 4096, "width of a head"},
           {"inner", inner, 1, 1'048'576, "inner width of the feed-forward layers"},
           vocabulary_parameter(32'128),
           fused_parameter()},
          &t5};
}

Network switch_preset(const char* name, const std::string& summary, std::int64_t layers, std::int64_t width,
                      std::int64_t inner, std::int64_t heads, std::int64_t experts, std::int64_t every, bool gated) {
  return {name,
          "Switch Transformer " + summary,
          "Fedus et al., Switch Transformers: Scaling to Trillion Parameter Models with Simple and Efficient Sparsity, "
          "2022, table 9",
          {batch_parameter(16),
           seq_parameter(512),
           {"targets", 114, 1, 131'072, "tokens per answer (decoder)"},
           layers_parameter(layers, "layers of the encoder, and of the decoder"),
           hidden_parameter(width),
           heads_parameter(heads),
           {"head_width", 64, 1, 4096, "width of a head"},
           {"inner", inner, 1, 1'048'576, "inner width of the feed-forward layers and of each expert"},
           experts_parameter(experts),
           chosen_parameter(1),
           capacity_parameter(125),
           {"every", every, 1, 1024, "one feed-forward layer in this many has experts (the last of them)"},
           {"gated", gated ? 1 : 0, 0, 1, "1: GELU with a gate; 0: ReLU"},
           vocabulary_parameter(32'128),
           fused_parameter()},
          &switch_transformer};
}

}  // namespace

std::vector<Network> t5_networks() {
  return {
      t5_preset("t5_small", "small", 6, 512, 2048, 8, 64),
      t5_preset("t5_base", "base", 12, 768, 3072, 12, 64),
      t5_preset("t5_large", "large", 24, 1024, 4096, 16, 64),
      t5_preset("t5_3b", "3B", 24, 1024, 16'384, 32, 128),
      t5_preset("t5_11b", "11B", 24, 1024, 65'536, 128, 128),
      switch_preset("switch_base", "base: 1 of 128 experts in every second layer", 12, 768, 2048, 12, 128, 2, true),
      switch_preset("switch_large", "large: 1 of 128 experts in every second layer", 24, 1024, 2816, 16, 128, 2, true),
      switch_preset("switch_c", "C: 1 of 2048 experts in every layer", 15, 2080, 6144, 32, 2048, 1, false),
  };
}

}  // namespace trainyard::zoo
