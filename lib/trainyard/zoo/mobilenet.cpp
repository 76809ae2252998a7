#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

ValueId conv_norm_relu6(LayerBuilder& net, ValueId x, const Convolution& how) {
  return net.relu6(net.batch_norm(net.conv(x, how)));
}

/// Expands the channels by `expansion`, applies a depthwise 3x3 convolution, and projects to `channels`.
ValueId inverted_residual(LayerBuilder& net, ValueId x, std::int64_t expansion, std::int64_t channels,
                          std::int64_t stride) {
  const std::int64_t given = net.shape(x)[1], wide = given * expansion;
  ValueId y = expansion == 1 ? x : conv_norm_relu6(net, x, {.channels = wide});
  y = conv_norm_relu6(net, y,
                      {.channels = wide, .kernel = {3, 3}, .stride = stride, .padding = {1, 1}, .groups = wide});
  y = net.batch_norm(net.conv(y, {.channels = channels}));
  return stride == 1 && channels == given ? net.add(x, y) : y;
}

Model mobilenet_v2(const NetworkArguments& given) {
  const struct {
    std::int64_t expansion, channels;
    int repeats;
    std::int64_t stride;
  } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given);
  net.at("stem");
  x = conv_norm_relu6(net, x, {.channels = 32, .kernel = {3, 3}, .stride = 2, .padding = {1, 1}});
  int block = 1;
  for (const auto& stage : stages) {
    for (int i = 0; i < stage.repeats; ++i) {
      net.at("block" + std::to_string(block++));
      x = inverted_residual(net, x, stage.expansion, stage.channels, i == 0 ? stage.stride : 1);
    }
  }
  net.at("head");
  x = conv_norm_relu6(net, x, {.channels = 1280});
  x = net.dropout(net.flatten(net.global_average_pool(x)), 0.2);
  return std::move(net).finish({net.gemm(x, given["classes"])});
}

}  // namespace

std::vector<Network> mobilenet_networks() {
  return {{"mobilenet_v2",
           "MobileNet-v2 at width 1.0",
           "Sandler et al., Inverted Residuals and Linear Bottlenecks, 2018",
           {batch_parameter(32), image_parameter(224, 32), classes_parameter(1000)},
           &mobilenet_v2}};
}

}  // namespace trainyard::zoo
