#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

/// Decoder-only Transformer with RMS norms before each part, rotary positions, grouped queries and SwiGLU, without
/// biases. Its feed-forward layers may be mixtures of experts.
class Llama {
 public:
  explicit Llama(const NetworkArguments& given, bool of_experts) : given_(given), of_experts_(of_experts) {
    require_multiple("hidden", width_, heads_, "heads");
    require_multiple("heads", heads_, kv_heads_, "kv_heads");
  }

  Model build() {
    const ValueId ids = net_.input("ids", {given_["batch"], seq_}, DataType::int64);
    net_.at("embedding");
    ValueId x = net_.embedding(net_.parameter("weight", {given_["vocabulary"], width_}), ids);
    cosines_ = net_.opaque_constant({seq_, 1, width_ / heads_});
    sines_ = net_.opaque_constant({seq_, 1, width_ / heads_});
    for (std::int64_t i = 0; i < given_["layers"]; ++i) {
      net_.at("layers." + std::to_string(i));
      x = feed_forward(self_attention(x));
    }
    net_.at("head");
    return std::move(net_).finish({net_.linear(net_.rms_norm(x), given_["vocabulary"], false)});
  }

 private:
  ValueId self_attention(ValueId x) {
    const ValueId normed = net_.rms_norm(x);
    const std::int64_t kv_width = width_ / heads_ * kv_heads_;
    const ValueId q = net_.rotary(net_.linear(normed, width_, false), heads_, cosines_, sines_);
    const ValueId k = net_.rotary(net_.linear(normed, kv_width, false), kv_heads_, cosines_, sines_);
    const ValueId v = net_.linear(normed, kv_width, false);
    const ValueId mixed = net_.attention(
        q, k, v, {.heads = heads_, .kv_heads = kv_heads_, .causal = true, .fused = given_["fused"] != 0});
    return net_.add(x, net_.linear(mixed, width_, false));
  }

  ValueId feed_forward(ValueId x) {
    const ValueId normed = net_.rms_norm(x);
    if (of_experts_)
      return net_.add(x, net_.experts(normed, {.experts = given_["experts"],
                                               .chosen = given_["chosen"],
                                               .inner = given_["inner"],
                                               .capacity = given_["capacity"],
                                               .router = Experts::Router::chosen_softmax}));
    const ValueId gate = net_.silu(net_.linear(normed, given_["inner"], false));
    const ValueId wide = net_.mul(gate, net_.linear(normed, given_["inner"], false));
    return net_.add(x, net_.linear(wide, width_, false));
  }

  const NetworkArguments& given_;
  bool of_experts_;
  std::int64_t seq_ = given_["seq"], width_ = given_["hidden"];
  std::int64_t heads_ = given_["heads"], kv_heads_ = given_["kv_heads"];
  LayerBuilder net_{given_.network()};
  ValueId cosines_, sines_;
};

Model llama(const NetworkArguments& given) { return Llama{given, false}.build(); }
Model mixtral(const NetworkArguments& given) { return Llama{given, true}.build(); }

struct LlamaSize {
  const char *name, *summary, *source;
  std::int64_t layers, width, inner, heads, kv_heads, vocabulary, seq;
};

}  // namespace

std::vector<Network> llama_networks() {
  const char* const two = "Touvron et al., Llama 2, 2023";
  const char* const three = "Grattafiori et al., The Llama 3 Herd of Models, 2024";
  std::vector<Network> all;
  for (const LlamaSize& size : {
           LlamaSize{"llama2_7b", "Llama 2 7B", two, 32, 4096, 11'008, 32, 32, 32'000, 4096},
           LlamaSize{"llama2_13b", "Llama 2 13B", two, 40, 5120, 13'824, 40, 40, 32'000, 4096},
           LlamaSize{"llama2_70b", "Llama 2 70B, grouped-query attention", two, 80, 8192, 28'672, 64, 8, 32'000, 4096},
           LlamaSize{"llama3_8b", "Llama 3 8B, grouped-query attention", three, 32, 4096, 14'336, 32, 8, 128'256, 8192},
           LlamaSize{"llama3_70b", "Llama 3 70B, grouped-query attention", three, 80, 8192, 28'672, 64, 8, 128'256,
                     8192},
           LlamaSize{"llama3_405b", "Llama 3 405B, grouped-query attention", three, 126, 16'384, 53'248, 128, 8,
                     128'256, 8192},
       })
    all.push_back({size.name,
                   size.summary,
                   size.source,
                   {batch_parameter(1),
                    seq_parameter(size.seq),
                    layers_parameter(size.layers),
                    hidden_parameter(size.width),
                    heads_parameter(size.heads),
                    {"kv_heads", size.kv_heads, 1, 1024, "heads of keys and values; must divide heads"},
                    {"inner", size.inner, 1, 1'048'576, "inner width of the feed-forward layers"},
                    vocabulary_parameter(size.vocabulary),
                    fused_parameter()},
                   &llama});
  all.push_back({"mixtral_8x7b",
                 "Mixtral 8x7B: 2 of 8 experts for each token in every layer",
                 "Jiang et al., Mixtral of Experts, 2024",
                 {batch_parameter(1),
                  seq_parameter(4096),
                  layers_parameter(32),
                  hidden_parameter(4096),
                  heads_parameter(32),
                  {"kv_heads", 8, 1, 1024, "heads of keys and values; must divide heads"},
                  {"inner", 14'336, 1, 1'048'576, "inner width of an expert"},
                  experts_parameter(8),
                  chosen_parameter(2),
                  capacity_parameter(100),
                  vocabulary_parameter(32'000),
                  fused_parameter()},
                 &mixtral});
  return all;
}

}  // namespace trainyard::zoo
