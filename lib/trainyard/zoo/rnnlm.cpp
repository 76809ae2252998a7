#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/unrolled.hpp"

namespace trainyard::zoo {

namespace {

std::string lstm_layer(std::size_t layer) { return "lstm" + std::to_string(layer); }

Model rnnlm(const NetworkArguments& given) {
  const std::int64_t batch = given["batch"], steps = given["steps"], width = given["hidden"];
  const std::int64_t layers = given["layers"], vocabulary = given["vocabulary"];
  require_unrollable(layers, steps);
  LayerBuilder net{given.network()};
  const ValueId ids = net.input("ids", {batch, steps}, DataType::int64);
  const ValueId hidden = net.input("h0", {layers, batch, width});
  const ValueId memory = net.input("c0", {layers, batch, width});
  std::vector<LstmCell> cells;
  std::vector<LstmState> states;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    net.at(lstm_layer(cells.size()));
    cells.push_back(net.lstm_cell(width, width));
    states.push_back({.hidden = net.select(hidden, 0, layer), .cell = net.select(memory, 0, layer)});
  }
  net.at("embedding");
  const ValueId words = net.embedding(net.parameter("weight", {vocabulary, width}), ids);
  std::vector<ValueId> tops;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::string moment = "t" + std::to_string(step);
    net.at("embedding", moment);
    ValueId x = net.select(words, 1, step);
    for (std::size_t layer = 0; layer < cells.size(); ++layer) {
      net.at(lstm_layer(layer), moment);
      states[layer] = net.lstm_step(cells[layer], net.dropout(x, 0.5), states[layer]);
      x = states[layer].hidden;
    }
    tops.push_back(x);
  }
  net.at("head");
  return std::move(net).finish({net.linear(net.stack(tops, 1), vocabulary)});
}

}  // namespace

std::vector<Network> rnnlm_networks() {
  return {{"rnnlm",
           "LSTM language model, unrolled; dropout before each layer, untied output weights",
           "Zaremba et al., Recurrent Neural Network Regularization, 2014; Jozefowicz et al., 2016",
           {batch_parameter(64),
            layers_parameter(2, "LSTM layers"),
            hidden_parameter(2048, "width of an LSTM layer"),
            {"steps", 32, 1, 4096, "unrolled time steps"},
            vocabulary_parameter(10'000)},
           &rnnlm}};
}

}  // namespace trainyard::zoo
