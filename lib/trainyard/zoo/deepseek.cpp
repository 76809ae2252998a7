#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

/// Decoder-only Transformer with multi-head latent attention: queries, keys and values are made from narrow
/// projections. Rotary positions apply to a part of each head, which in keys all heads share. Feed-forward layers are
/// mixtures of many small experts, plus a shared one that all tokens take. The module that predicts a second token is
/// left out.
class DeepSeek {
 public:
  explicit DeepSeek(const NetworkArguments& given) : given_(given) { require_multiple("rotary", turned_, 2); }

  Model build() {
    const ValueId ids = net_.input("ids", {given_["batch"], seq_}, DataType::int64);
    net_.at("embedding");
    ValueId x = net_.embedding(net_.parameter("weight", {given_["vocabulary"], width_}), ids);
    cosines_ = net_.opaque_constant({seq_, 1, turned_});
    sines_ = net_.opaque_constant({seq_, 1, turned_});
    for (std::int64_t i = 0; i < given_["layers"]; ++i) {
      net_.at("layers." + std::to_string(i));
      x = net_.add(x, attention(net_.rms_norm(x)));
      const ValueId normed = net_.rms_norm(x);
      x = net_.add(x, i < given_["dense"] ? swiglu(normed, given_["inner"]) : mixture(normed));
    }
    net_.at("head");
    return std::move(net_).finish({net_.linear(net_.rms_norm(x), given_["vocabulary"], false)});
  }

 private:
  ValueId attention(ValueId x) {
    const std::int64_t size = still_ + turned_;
    const ValueId narrow = net_.rms_norm(net_.linear(x, given_["query_rank"], false));
    const ValueId q = net_.linear(narrow, heads_ * size, false);
    const ValueId still_queries = part(q, size, 0, still_);
    const ValueId turned_queries = turn(part(q, size, still_, size), heads_);
    const ValueId queries = net_.concat({still_queries, turned_queries}, 3);

    const std::int64_t rank = given_["kv_rank"];
    const ValueId compressed = net_.linear(x, rank + turned_, false);
    const ValueId position = turn(net_.slice(compressed, 2, rank, rank + turned_), 1);
    const ValueId normed = net_.rms_norm(net_.slice(compressed, 2, 0, rank));
    const ValueId kv = net_.linear(normed, heads_ * (still_ + value_), false);
    const ValueId of_all = net_.append("Expand", {position, net_.constant({batch_, seq_, heads_, turned_})});
    const ValueId still_keys = part(kv, still_ + value_, 0, still_);
    const ValueId keys = net_.concat({still_keys, of_all}, 3);
    const ValueId values = part(kv, still_ + value_, still_, still_ + value_);

    const auto joined = [&](ValueId each, std::int64_t last) {
      return net_.reshape(each, {batch_, seq_, heads_ * last});
    };
    const ValueId flat_queries = joined(queries, size);
    const ValueId flat_keys = joined(keys, size);
    const ValueId flat_values = joined(values, value_);
    const ValueId mixed = net_.attention(flat_queries, flat_keys, flat_values,
                                         {.heads = heads_, .causal = true, .fused = given_["fused"] != 0});
    return net_.linear(mixed, width_, false);
  }

  /// The numbers from `first` to `last` of each head of x [B, S, heads size], as [B, S, heads, last - first].
  ValueId part(ValueId x, std::int64_t size, std::int64_t first, std::int64_t last) {
    return net_.slice(net_.reshape(x, {batch_, seq_, heads_, size}), 3, first, last);
  }
  /// Rotates x by positions in heads: [B, S, heads, turned].
  ValueId turn(ValueId x, std::int64_t heads) {
    const ValueId flat = net_.reshape(x, {batch_, seq_, heads * turned_});
    return net_.reshape(net_.rotary(flat, heads, cosines_, sines_), {batch_, seq_, heads, turned_});
  }

  ValueId swiglu(ValueId x, std::int64_t inner) {
    const ValueId gate = net_.silu(net_.linear(x, inner, false));
    const ValueId wide = net_.mul(gate, net_.linear(x, inner, false));
    return net_.linear(wide, width_, false);
  }
  ValueId mixture(ValueId x) {
    const std::int64_t inner = given_["expert_inner"];
    const ValueId shared = swiglu(x, given_["shared"] * inner);
    const ValueId own = net_.experts(x, {.experts = given_["experts"],
                                         .chosen = given_["chosen"],
                                         .inner = inner,
                                         .capacity = given_["capacity"],
                                         .router = Experts::Router::chosen_sigmoid});
    return net_.add(shared, own);
  }

  const NetworkArguments& given_;
  std::int64_t batch_ = given_["batch"], seq_ = given_["seq"], width_ = given_["hidden"], heads_ = given_["heads"];
  std::int64_t still_ = given_["head_width"], turned_ = given_["rotary"], value_ = given_["head_width"];
  LayerBuilder net_{given_.network()};
  ValueId cosines_, sines_;
};

Model deepseek(const NetworkArguments& given) { return DeepSeek{given}.build(); }

}  // namespace

std::vector<Network> deepseek_networks() {
  return {{"deepseek_v3",
           "DeepSeek-V3: latent attention; 8 of 256 experts and a shared one for each token, except in the first three "
           "layers",
           "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 4.2",
           {batch_parameter(1),
            seq_parameter(4096),
            layers_parameter(61),
            hidden_parameter(7168),
            heads_parameter(128),
            {"head_width", 128, 1, 4096, "width of a head: of its keys without positions, and of its values"},
            {"rotary", 64, 2, 4096, "width of the rotary positions in a head; even"},
            {"query_rank", 1536, 1, 65'536, "width of the latent vector that queries are computed from"},
            {"kv_rank", 512, 1, 65'536, "width of the latent vector that keys and values are computed from"},
            {"dense", 3, 0, 1024, "number of first layers without experts"},
            {"inner", 18'432, 1, 1'048'576, "inner width of the feed-forward layers without experts"},
            {"expert_inner", 2048, 1, 1'048'576, "inner width of an expert"},
            {"shared", 1, 1, 1024, "shared experts that process all tokens, computed as one"},
            experts_parameter(256),
            chosen_parameter(8),
            capacity_parameter(100),
            vocabulary_parameter(129'280),
            fused_parameter()},
           &deepseek}};
}

}  // namespace trainyard::zoo
