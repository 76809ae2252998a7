#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

constexpr double kBertDropout = 0.1;
constexpr double kEpsilon = 1e-12;

ValueId bert_layer(LayerBuilder& net, ValueId x, const NetworkArguments& given) {
  const std::int64_t width = net.shape(x).back();
  const ValueId query = net.linear(x, width), key = net.linear(x, width), value = net.linear(x, width);
  const ValueId mixed = net.attention(query, key, value,
                                      {.heads = given["heads"], .dropout = kBertDropout, .fused = given["fused"] != 0});
  const ValueId attended = net.linear(mixed, width);
  x = net.layer_norm(net.add(x, net.dropout(attended, kBertDropout)), kEpsilon);
  const ValueId wide = net.gelu(net.linear(x, given["inner"]));
  return net.layer_norm(net.add(x, net.dropout(net.linear(wide, width), kBertDropout)), kEpsilon);
}

Model bert(const NetworkArguments& given) {
  const std::int64_t seq = given["seq"], width = given["hidden"], positions = given["positions"];
  require_positions(seq, positions);
  LayerBuilder net{given.network()};
  const Shape tokens = {given["batch"], seq};
  const ValueId ids = net.input("ids", tokens, DataType::int64);
  const ValueId places = net.input("pos", tokens, DataType::int64);
  const ValueId types = net.input("typ", tokens, DataType::int64);
  net.at("embedding");
  const ValueId words = net.parameter("words", {given["vocabulary"], width});
  const ValueId placed = net.embedding(net.parameter("positions", {positions, width}), places);
  ValueId x = net.add(net.embedding(words, ids), placed);
  x = net.add(x, net.embedding(net.parameter("types", {2, width}), types));
  x = net.dropout(net.layer_norm(x, kEpsilon), kBertDropout);
  for (std::int64_t layer = 0; layer < given["layers"]; ++layer) {
    net.at("encoder." + std::to_string(layer));
    x = bert_layer(net, x, given);
  }
  net.at("head");
  if (given["head"] == 0)  // pooler: a dense layer on the first token
    return std::move(net).finish({net.tanh(net.gemm(net.select(x, 1, 0), width))});
  x = net.layer_norm(net.gelu(net.linear(x, width)), kEpsilon);
  if (given["head"] == 2) return std::move(net).finish({net.linear(x, given["vocabulary"])});
  const ValueId bias = net.parameter("bias", {given["vocabulary"]});
  const ValueId weight = net.transpose(words, {1, 0});
  return std::move(net).finish({net.append("Linear", {x, weight, bias})});
}

Network bert_preset(const char* name, const char* summary, std::int64_t layers, std::int64_t width,
                    std::int64_t heads) {
  return {name,
          summary,
          "Devlin et al., BERT, 2019",
          {batch_parameter(16),
           seq_parameter(384),
           layers_parameter(layers),
           hidden_parameter(width),
           heads_parameter(heads),
           {"inner", 4 * width, 1, 1'048'576, "inner width of the feed-forward layers"},
           vocabulary_parameter(30'522),
           positions_parameter(512),
           {"head", 1, 0, 2,
            "0: pooler; 1: masked-word head that shares the embedding's weights; 2: masked-word head with separate "
            "weights"},
           fused_parameter()},
          &bert};
}

}  // namespace

std::vector<Network> bert_networks() {
  return {
      bert_preset("bert_base", "BERT-base: 12 layers of width 768, with the masked-language head", 12, 768, 12),
      bert_preset("bert_large", "BERT-large: 24 layers of width 1024, with the masked-language head", 24, 1024, 16),
  };
}

}  // namespace trainyard::zoo
