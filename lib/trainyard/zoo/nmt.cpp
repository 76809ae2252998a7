#include <string>
#include <vector>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/unrolled.hpp"

namespace trainyard::zoo {

namespace {

std::string numbered(const char* name, std::int64_t number) { return name + std::to_string(number); }

/// Encoder and decoder LSTMs, with attention over the encoder's outputs. Everything except a fused encoder is unrolled.
class Translator {
 public:
  Translator(const NetworkArguments& given, bool gnmt) : given_(given), gnmt_(gnmt) {
    require_unrollable(2 * layers_ + 1, steps_);
    if (gnmt) require_multiple("hidden", width_, 2);
  }

  Model build() {
    const ValueId source = net_.input("src", {batch_, steps_}, DataType::int64);
    target_ = net_.input("tgt", {batch_, steps_}, DataType::int64);
    hidden_ = net_.input("h0", {layers_, batch_, width_});
    memory_ = net_.input("c0", {layers_, batch_, width_});
    net_.at("encoder_embedding");
    const ValueId words = net_.embedding(net_.parameter("weight", {given_["vocabulary"], width_}), source);
    encoded_ = given_["fused"] == 1 ? fused_encoder(words) : unrolled_encoder(words);
    net_.at("attention");
    keys_ = net_.transpose(net_.linear(encoded_, width_, false), {0, 2, 1});
    const ValueId decoded = decoder();
    net_.at("head");
    return std::move(net_).finish({net_.linear(decoded, given_["vocabulary"])});
  }

 private:
  LstmState initial(std::int64_t layer) {
    return {.hidden = net_.select(hidden_, 0, layer), .cell = net_.select(memory_, 0, layer)};
  }

  ValueId unrolled_encoder(ValueId words) {
    std::vector<ValueId> xs;
    for (std::int64_t step = 0; step < steps_; ++step) xs.push_back(net_.select(words, 1, step));
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const std::string name = numbered("encoder", layer);
      if (layer == 0 && gnmt_) {
        net_.at(name);
        LstmState start = initial(0);
        start = {.hidden = net_.slice(start.hidden, 1, 0, width_ / 2),
                 .cell = net_.slice(start.cell, 1, 0, width_ / 2)};
        const auto forward = pass(name + "/forward", xs, start, width_ / 2, false);
        const auto backward = pass(name + "/backward", xs, start, width_ / 2, true);
        for (std::size_t step = 0; step < xs.size(); ++step) {
          net_.at(name, numbered("t", static_cast<std::int64_t>(step)));
          xs[step] = net_.concat({forward[step], backward[step]}, 1);
        }
        continue;
      }
      net_.at(name);
      auto ys = pass(name, xs, initial(layer), width_, false);
      // From the second layer above the bidirectional one on, GNMT adds each layer's input to its output.
      for (std::size_t step = 0; gnmt_ && layer > 1 && step < ys.size(); ++step)
        ys[step] = net_.add(ys[step], xs[step]);
      xs = std::move(ys);
    }
    return net_.stack(xs, 1);
  }

  /// One layer over all steps; from the last to the first if `reversed`.
  std::vector<ValueId> pass(const std::string& layer, const std::vector<ValueId>& xs, LstmState state,
                            std::int64_t width, bool reversed) {
    net_.at(layer);
    const LstmCell cell = net_.lstm_cell(net_.shape(xs.front())[1], width);
    std::vector<ValueId> ys(xs.size());
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const std::size_t step = reversed ? xs.size() - 1 - i : i;
      net_.at(layer, numbered("t", static_cast<std::int64_t>(step)));
      state = net_.lstm_step(cell, xs[step], state);
      ys[step] = state.hidden;
    }
    net_.at(layer);
    return ys;
  }

  /// LSTM operators over the whole sequence, with two biases and without residuals.
  ValueId fused_encoder(ValueId words) {
    ValueId x = net_.transpose(words, {1, 0, 2});
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      net_.at(numbered("encoder", layer));
      const std::int64_t directions = layer == 0 && gnmt_ ? 2 : 1;
      const std::int64_t width = width_ / directions;
      const ValueId weight = net_.parameter("weight", {directions, 4 * width, width_});
      const ValueId recurrence = net_.parameter("recurrence", {directions, 4 * width, width});
      const ValueId bias = net_.parameter("bias", {directions, 8 * width});
      x = net_.append(
          "LSTM", {x, weight, recurrence, bias},
          {{"hidden_size", width}, {"direction", std::string{directions == 2 ? "bidirectional" : "forward"}}}, 3);
      x = directions == 2 ? net_.reshape(net_.transpose(x, {0, 2, 1, 3}), {steps_, batch_, width_})
                          : net_.squeeze(x, 1);
    }
    return net_.transpose(x, {1, 0, 2});
  }

  ValueId decoder() {
    std::vector<LstmCell> cells;
    std::vector<LstmState> states;
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      net_.at(numbered("decoder", layer));
      cells.push_back(net_.lstm_cell(layer == 0 ? 2 * width_ : width_, width_));
      states.push_back(initial(layer));
    }
    net_.at("decoder_embedding");
    const ValueId words = net_.embedding(net_.parameter("weight", {given_["vocabulary"], width_}), target_);
    net_.at("attention");
    const ValueId mix_weight = net_.parameter("mix.weight", {width_, 2 * width_});
    const ValueId mix_bias = net_.parameter("mix.bias", {width_});
    ValueId context = net_.select(hidden_, 0, 0);
    std::vector<ValueId> outputs;
    for (std::int64_t step = 0; step < steps_; ++step) {
      const std::string moment = numbered("t", step);
      net_.at("decoder_embedding", moment);
      const ValueId word = net_.select(words, 1, step);
      net_.at(numbered("decoder", 0), moment);
      ValueId x = net_.concat({word, context}, 1);
      for (std::size_t layer = 0; layer < cells.size(); ++layer) {
        net_.at(numbered("decoder", static_cast<std::int64_t>(layer)), moment);
        states[layer] = net_.lstm_step(cells[layer], x, states[layer]);
        x = gnmt_ && layer > 1 ? net_.add(states[layer].hidden, x) : states[layer].hidden;
      }
      net_.at("attention", moment);
      const ValueId weights = net_.softmax(net_.matmul(net_.unsqueeze(x, 1), keys_));
      context = net_.squeeze(net_.matmul(weights, encoded_), 1);
      outputs.push_back(net_.tanh(
          net_.append("Gemm", {net_.concat({x, context}, 1), mix_weight, mix_bias}, {{"transB", std::int64_t{1}}})));
    }
    net_.at("attention");
    return net_.stack(outputs, 1);
  }

  const NetworkArguments& given_;
  bool gnmt_;
  std::int64_t batch_ = given_["batch"], steps_ = given_["steps"], width_ = given_["hidden"],
               layers_ = given_["layers"];
  LayerBuilder net_{given_.network()};
  ValueId target_, hidden_, memory_, encoded_, keys_;
};

std::vector<NetworkParameter> parameters(std::int64_t layers) {
  return {batch_parameter(64),
          layers_parameter(layers, "LSTM layers of the encoder, and of the decoder"),
          hidden_parameter(1024, "width of an LSTM layer"),
          {"steps", 32, 1, 4096, "words of the source, and of the target"},
          vocabulary_parameter(32'000),
          {"fused", 0, 0, 1, "1: the encoder's layers are LSTM operators; 0: unrolled like the decoder's"}};
}

}  // namespace

std::vector<Network> nmt_networks() {
  return {
      {"nmt", "Translation by LSTMs with attention on the decoder's top layer, unrolled",
       "Luong et al., Effective Approaches to Attention-based Neural Machine Translation, 2015", parameters(2),
       [](const NetworkArguments& given) {
         return Translator{given, false}.build();
       }},
      {"gnmt",
       "As nmt, with the bidirectional first encoder layer and the residuals from the third layer on of GNMT (but "
       "multiplicative attention on the top layer instead of additive attention on the bottom layer)",
       "Wu et al., Google's Neural Machine Translation System, 2016", parameters(4),
       [](const NetworkArguments& given) {
         return Translator{given, true}.build();
       }},
  };
}

}  // namespace trainyard::zoo
