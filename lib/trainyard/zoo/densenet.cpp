#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

ValueId norm_relu_conv(LayerBuilder& net, ValueId x, const Convolution& how) {
  return net.conv(net.relu(net.batch_norm(x)), how);
}

Model densenet121(const NetworkArguments& given) {
  constexpr std::int64_t growth = 32;
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given);
  net.at("stem");
  x = net.conv(x, {.channels = 2 * growth, .kernel = {7, 7}, .stride = 2, .padding = {3, 3}});
  x = net.max_pool(net.relu(net.batch_norm(x)), {.kernel = 3, .stride = 2, .padding = 1});
  int block = 1;
  for (const int layers : {6, 12, 24, 16}) {
    const std::string name = "denseblock" + std::to_string(block);
    for (int i = 1; i <= layers; ++i) {
      net.at(name + "." + std::to_string(i));
      ValueId y = norm_relu_conv(net, x, {.channels = 4 * growth});
      y = norm_relu_conv(net, y, {.channels = growth, .kernel = {3, 3}, .padding = {1, 1}});
      x = net.concat({x, y}, 1);
    }
    if (block < 4) {
      net.at("transition" + std::to_string(block));
      x = norm_relu_conv(net, x, {.channels = net.shape(x)[1] / 2});
      x = net.average_pool(x, {.kernel = 2, .stride = 2});
    }
    ++block;
  }
  net.at("head");
  x = net.flatten(net.global_average_pool(net.relu(net.batch_norm(x))));
  return std::move(net).finish({net.gemm(x, given["classes"])});
}

}  // namespace

std::vector<Network> densenet_networks() {
  return {{"densenet121",
           "DenseNet-121 (6, 12, 24, 16; growth 32), with explicit concatenations",
           "Huang et al., Densely Connected Convolutional Networks, 2017",
           {batch_parameter(32), image_parameter(224, 32), classes_parameter(1000)},
           &densenet121}};
}

}  // namespace trainyard::zoo
