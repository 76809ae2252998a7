#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

/// A fire module: a 1x1 convolution to few channels, followed by parallel 1x1 and 3x3 convolutions.
ValueId fire(LayerBuilder& net, const std::string& layer, ValueId x, std::int64_t squeeze, std::int64_t expand) {
  net.at(layer);
  x = net.relu(net.conv(x, {.channels = squeeze, .bias = true}));
  net.at(layer + "/expand1x1");
  const ValueId narrow = net.relu(net.conv(x, {.channels = expand, .bias = true}));
  net.at(layer + "/expand3x3");
  const ValueId wide = net.relu(net.conv(x, {.channels = expand, .kernel = {3, 3}, .padding = {1, 1}, .bias = true}));
  net.at(layer);
  return net.concat({narrow, wide}, 1);
}

Model squeezenet(const NetworkArguments& given) {
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given);
  const Pooling halve = {.kernel = 3, .stride = 2, .ceil = true};
  net.at("stem");
  x = net.relu(net.conv(x, {.channels = 64, .kernel = {3, 3}, .stride = 2, .bias = true}));
  x = net.max_pool(x, halve);
  x = fire(net, "fire2", x, 16, 64);
  x = net.max_pool(fire(net, "fire3", x, 16, 64), halve);
  x = fire(net, "fire4", x, 32, 128);
  x = net.max_pool(fire(net, "fire5", x, 32, 128), halve);
  x = fire(net, "fire6", x, 48, 192);
  x = fire(net, "fire7", x, 48, 192);
  x = fire(net, "fire8", x, 64, 256);
  x = fire(net, "fire9", x, 64, 256);
  net.at("head");
  x = net.relu(net.conv(net.dropout(x, 0.5), {.channels = given["classes"], .bias = true}));
  return std::move(net).finish({net.flatten(net.global_average_pool(x))});
}

}  // namespace

std::vector<Network> squeeze_networks() {
  return {{"squeezenet1_1",
           "SqueezeNet 1.1: fire modules, no dense layer",
           "Iandola et al., SqueezeNet, 2016",
           {batch_parameter(64), image_parameter(224, 33), classes_parameter(1000)},
           &squeezenet}};
}

}  // namespace trainyard::zoo
