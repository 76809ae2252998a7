#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/convolution_cell.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/unrolled.hpp"

namespace trainyard::zoo {

namespace {

NetworkParameter wiring_parameter() {
  return {"wiring", 1, 0, 2'147'483'647, "the seed of the random wiring of the cells"};
}

// Convolutional cells. Each node of a cell adds the results of two operations, each on one of the outputs of the two
// cells before or of the earlier nodes. The outputs of nodes that no node reads are concatenated.

enum class Operation : std::uint8_t { identity, separable3, separable5, average, maximum };

struct Branch {
  std::size_t from = 0;  // 0, 1: the two cells before; from 2 on: nodes
  Operation operation = Operation::identity;
};
struct CellNode {
  Branch branch[2];
};
using CellWiring = std::vector<CellNode>;

CellWiring draw_cell(Random& random, std::size_t nodes) {
  CellWiring wiring(nodes);
  for (std::size_t node = 0; node < nodes; ++node)
    for (Branch& branch : wiring[node].branch) {
      branch.from = random.below(node + 2);
      branch.operation = static_cast<Operation>(random.below(5));
    }
  return wiring;
}

ValueId applied(ConvolutionCell& cell, Operation operation, const std::string& layer, ValueId x, std::int64_t stride) {
  switch (operation) {
    case Operation::identity:
      return stride == 1 ? x : cell.halved(layer, x);
    case Operation::separable3:
      return cell.separable(x, 3, stride);
    case Operation::separable5:
      return cell.separable(x, 5, stride);
    case Operation::average:
      return cell.average(x, stride);
    case Operation::maximum:
      return cell.maximum(x, stride);
  }
  return x;
}

/// `stride`: stride of operations on the outputs of earlier cells.
ValueId wired(ConvolutionCell cell, const CellWiring& wiring, ValueId left, ValueId right, std::int64_t stride) {
  LayerBuilder& net = cell.net();
  std::vector<ValueId> values{left, right};
  std::vector<bool> read(wiring.size() + 2, false);
  for (std::size_t node = 0; node < wiring.size(); ++node) {
    const std::string layer = "node_" + std::to_string(node);
    cell.enter(layer);
    ValueId terms[2];
    for (std::size_t side = 0; side < 2; ++side) {
      const Branch& branch = wiring[node].branch[side];
      terms[side] = applied(cell, branch.operation, layer, values[branch.from], branch.from < 2 ? stride : 1);
      read[branch.from] = true;
    }
    values.push_back(net.add(terms[0], terms[1]));
  }
  cell.leave();
  std::vector<ValueId> loose;
  for (std::size_t value = 2; value < values.size(); ++value)
    if (!read[value]) loose.push_back(values[value]);
  return loose.size() == 1 ? loose.front() : net.concat(loose, 1);
}

Model enas_cifar10(const NetworkArguments& given) {
  const std::int64_t filters = given["filters"];
  require_multiple("filters", filters, 2);
  Random random = Random::stream(static_cast<std::uint64_t>(given["wiring"]), 0);
  const auto nodes = static_cast<std::size_t>(given["nodes"]);
  const CellWiring normal = draw_cell(random, nodes), reduction = draw_cell(random, nodes);
  LayerBuilder net{given.network()};
  const ValueId image = image_input(net, given);
  net.at("stem");
  ValueId current = net.batch_norm(net.conv(image, {.channels = 3 * filters, .kernel = {3, 3}, .padding = {1, 1}}),
                                   ConvolutionCell::kEpsilon);
  ValueId previous = current;
  bool halved_before = false;  // `previous` has twice the size of `current`
  std::int64_t index = 0;
  const auto add_cell = [&](const CellWiring& wiring, std::int64_t width, std::int64_t stride) {
    ConvolutionCell cell{net, "cell_" + std::to_string(index++), width};
    const ValueId left = halved_before ? cell.halved("left", previous) : cell.fitted("left", previous);
    const ValueId next = wired(cell, wiring, left, cell.fitted("right", current), stride);
    previous = std::exchange(current, next);
    halved_before = stride == 2;
  };
  for (std::int64_t stage = 0; stage < 3; ++stage) {
    const std::int64_t width = filters << stage;
    if (stage > 0) add_cell(reduction, width, 2);
    for (std::int64_t i = 0; i < given["cells"]; ++i) add_cell(normal, width, 1);
  }
  net.at("head");
  const ValueId features = net.flatten(net.global_average_pool(net.relu(current)));
  return std::move(net).finish({net.gemm(features, given["classes"])});
}

// A recurrent cell. Node 0 reads the step's input and the previous state, every other node i an earlier node j:
//
//     c, g = [x, h] W_0  or  s_j W_i          s_i = s_j + sigmoid(c) (f(g) - s_j)
//
// with f one of identity, sigmoid, tanh, relu. The new state is the mean of the nodes that no node reads.

struct RecurrentNode {
  std::size_t from = 0;
  std::size_t activation = 0;
};

ValueId activated(LayerBuilder& net, std::size_t activation, ValueId x) {
  switch (activation) {
    case 1:
      return net.sigmoid(x);
    case 2:
      return net.tanh(x);
    case 3:
      return net.relu(x);
    default:
      return x;
  }
}

Model enas_ptb(const NetworkArguments& given) {
  const std::int64_t batch = given["batch"], steps = given["steps"], width = given["hidden"];
  const auto nodes = static_cast<std::size_t>(given["nodes"]);
  require_unrollable(given["nodes"], steps);
  Random random = Random::stream(static_cast<std::uint64_t>(given["wiring"]), 1);
  std::vector<RecurrentNode> wiring(nodes);
  std::vector<bool> read(nodes, false);
  for (std::size_t node = 0; node < nodes; ++node) {
    wiring[node] = {.from = node == 0 ? 0 : random.below(node), .activation = random.below(4)};
    if (node > 0) read[wiring[node].from] = true;
  }
  LayerBuilder net{given.network()};
  const ValueId ids = net.input("ids", {batch, steps}, DataType::int64);
  ValueId state = net.input("h0", {batch, width});
  std::vector<ValueId> weights;
  for (std::size_t node = 0; node < nodes; ++node) {
    net.at("node" + std::to_string(node));
    weights.push_back(net.parameter("weight", {node == 0 ? 2 * width : width, 2 * width}));
  }
  net.at("embedding");
  const ValueId words = net.embedding(net.parameter("weight", {given["vocabulary"], width}), ids);
  std::vector<ValueId> states;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::string moment = "t" + std::to_string(step);
    net.at("embedding", moment);
    const ValueId x = net.select(words, 1, step);
    std::vector<ValueId> values;
    for (std::size_t node = 0; node < nodes; ++node) {
      net.at("node" + std::to_string(node), moment);
      const ValueId before = node == 0 ? state : values[wiring[node].from];
      const ValueId in = node == 0 ? net.concat({x, state}, 1) : before;
      const std::vector<ValueId> gates = net.split(net.matmul(in, weights[node]), 1, 2);
      const ValueId change = net.append("Sub", {activated(net, wiring[node].activation, gates[1]), before});
      values.push_back(net.add(before, net.mul(net.sigmoid(gates[0]), change)));
    }
    net.at("state", moment);
    std::vector<ValueId> loose;
    for (std::size_t node = 0; node < nodes; ++node)
      if (!read[node]) loose.push_back(values[node]);
    state = loose.size() == 1 ? loose.front() : net.append("Mean", loose);
    states.push_back(state);
  }
  net.at("head");
  return std::move(net).finish({net.linear(net.stack(states, 1), given["sampled"])});
}

}  // namespace

std::vector<Network> enas_networks() {
  const std::string source = "Pham et al., Efficient Neural Architecture Search via Parameter Sharing, 2018";
  return {{"enas_cifar10",
           "Stacked convolutional cells with random wiring, for small images; from the search space of ENAS",
           source,
           {batch_parameter(300),
            image_parameter(32, 8),
            classes_parameter(10),
            wiring_parameter(),
            {"cells", 2, 1, 64, "cells between two cells that halve the image"},
            {"nodes", 5, 1, 32, "nodes of a cell"},
            {"filters", 36, 2, 4096, "channels of a node, before the image is halved"}},
           &enas_cifar10},
          {"enas_ptb",
           "Unrolled recurrent cell with random wiring, over the words of the Penn Treebank, with a sampled softmax",
           source,
           {batch_parameter(2048),
            wiring_parameter(),
            {"steps", 32, 1, 4096, "unrolled time steps"},
            {"nodes", 8, 1, 64, "nodes of the cell"},
            hidden_parameter(512, "width of a node"),
            vocabulary_parameter(10'000),
            {"sampled", 1024, 1, 10'000'000, "words in the sampled softmax"}},
           &enas_ptb}};
}

}  // namespace trainyard::zoo
