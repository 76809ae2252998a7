#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

constexpr double kDropout = 0.1;

class Transformer {
 public:
  explicit Transformer(const NetworkArguments& given) : given_(given) {}

  Model build() {
    const ValueId source = net_.input("src", {given_["batch"], seq_}, DataType::int64);
    const ValueId target = net_.input("tgt", {given_["batch"], seq_}, DataType::int64);
    ValueId x = embedded("encoder_embedding", source);
    for (std::int64_t layer = 0; layer < given_["layers"]; ++layer) {
      net_.at("encoder." + std::to_string(layer));
      x = feed_forward(self_attention(x, false));
    }
    net_.at("encoder.norm");
    const ValueId memory = net_.layer_norm(x);
    x = embedded("decoder_embedding", target);
    for (std::int64_t layer = 0; layer < given_["layers"]; ++layer) {
      net_.at("decoder." + std::to_string(layer));
      x = feed_forward(cross_attention(self_attention(x, true), memory));
    }
    net_.at("decoder.norm");
    x = net_.layer_norm(x);
    net_.at("head");
    return std::move(net_).finish({net_.linear(x, given_["vocabulary"], false)});
  }

 private:
  ValueId embedded(const char* layer, ValueId ids) {
    net_.at(layer);
    const ValueId words = net_.embedding(net_.parameter("weight", {given_["vocabulary"], width_}), ids);
    const ValueId scaled = net_.mul(words, net_.opaque_constant({}));                       // times sqrt(hidden)
    return net_.dropout(net_.add(scaled, net_.opaque_constant({seq_, width_})), kDropout);  // sinusoidal encoding
  }

  ValueId self_attention(ValueId x, bool causal) {
    const auto qkv = net_.split(net_.linear(x, 3 * width_), 2, 3);
    return mixed_in(x, attended(qkv[0], qkv[1], qkv[2], causal));
  }

  ValueId cross_attention(ValueId x, ValueId memory) {
    const ValueId query = net_.linear(x, width_);
    const auto kv = net_.split(net_.linear(memory, 2 * width_), 2, 2);
    return mixed_in(x, attended(query, kv[0], kv[1], false));
  }

  ValueId attended(ValueId q, ValueId k, ValueId v, bool causal) {
    return net_.attention(
        q, k, v, {.heads = given_["heads"], .dropout = kDropout, .causal = causal, .fused = given_["fused"] != 0});
  }

  ValueId mixed_in(ValueId x, ValueId attended) {
    return net_.layer_norm(net_.add(x, net_.dropout(net_.linear(attended, width_), kDropout)));
  }

  ValueId feed_forward(ValueId x) {
    const ValueId wide = net_.dropout(net_.relu(net_.linear(x, given_["inner"])), kDropout);
    return net_.layer_norm(net_.add(x, net_.dropout(net_.linear(wide, width_), kDropout)));
  }

  const NetworkArguments& given_;
  std::int64_t seq_ = given_["seq"], width_ = given_["hidden"];
  LayerBuilder net_{given_.network()};
};

Model transformer(const NetworkArguments& given) { return Transformer{given}.build(); }

}  // namespace

std::vector<Network> transformer_networks() {
  return {{"transformer",
           "Transformer base, encoder and decoder as in torch.nn.Transformer (a norm after each stack); untied "
           "embeddings and output weights",
           "Vaswani et al., Attention Is All You Need, 2017",
           {batch_parameter(64),
            seq_parameter(32),
            layers_parameter(6, "layers of the encoder, and of the decoder"),
            hidden_parameter(512),
            heads_parameter(8),
            {"inner", 2048, 1, 1'048'576, "inner width of the feed-forward layers"},
            vocabulary_parameter(32'000),
            fused_parameter()},
           &transformer}};
}

}  // namespace trainyard::zoo
