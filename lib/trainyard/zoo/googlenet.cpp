#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

ValueId conv_norm_relu(LayerBuilder& net, ValueId x, const Convolution& how) {
  return net.relu(net.batch_norm(net.conv(x, how), 1e-3));
}

/// Output channels of the branches: 1x1; 1x1 before 3x3, 3x3; 1x1 before the second 3x3, that 3x3; 1x1 after the
/// pooling.
struct Widths {
  const char* layer;
  std::int64_t narrow, reduce3, conv3, reduce5, conv5, pooled;
};

ValueId inception(LayerBuilder& net, ValueId x, const Widths& widths) {
  const std::string layer = widths.layer;
  const auto conv3x3 = [](std::int64_t channels) {
    return Convolution{.channels = channels, .kernel = {3, 3}, .padding = {1, 1}};
  };
  net.at(layer + "/branch1");
  const ValueId one = conv_norm_relu(net, x, {.channels = widths.narrow});
  net.at(layer + "/branch2");
  const ValueId two = conv_norm_relu(net, conv_norm_relu(net, x, {.channels = widths.reduce3}), conv3x3(widths.conv3));
  net.at(layer + "/branch3");
  const ValueId three =
      conv_norm_relu(net, conv_norm_relu(net, x, {.channels = widths.reduce5}), conv3x3(widths.conv5));
  net.at(layer + "/branch4");
  const ValueId pooled = net.max_pool(x, {.kernel = 3, .stride = 1, .padding = 1, .ceil = true});
  const ValueId four = conv_norm_relu(net, pooled, {.channels = widths.pooled});
  net.at(layer);
  return net.concat({one, two, three, four}, 1);
}

Model googlenet(const NetworkArguments& given) {
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given);
  const Pooling halve = {.kernel = 3, .stride = 2, .ceil = true};
  net.at("stem");
  x = conv_norm_relu(net, x, {.channels = 64, .kernel = {7, 7}, .stride = 2, .padding = {3, 3}});
  x = conv_norm_relu(net, net.max_pool(x, halve), {.channels = 64});
  x = conv_norm_relu(net, x, {.channels = 192, .kernel = {3, 3}, .padding = {1, 1}});
  x = net.max_pool(x, halve);
  x = inception(net, x, {"inception3a", 64, 96, 128, 16, 32, 32});
  x = net.max_pool(inception(net, x, {"inception3b", 128, 128, 192, 32, 96, 64}), halve);
  x = inception(net, x, {"inception4a", 192, 96, 208, 16, 48, 64});
  x = inception(net, x, {"inception4b", 160, 112, 224, 24, 64, 64});
  x = inception(net, x, {"inception4c", 128, 128, 256, 24, 64, 64});
  x = inception(net, x, {"inception4d", 112, 144, 288, 32, 64, 64});
  x = inception(net, x, {"inception4e", 256, 160, 320, 32, 128, 128});
  x = net.max_pool(x, {.kernel = 2, .stride = 2, .ceil = true});
  x = inception(net, x, {"inception5a", 256, 160, 320, 32, 128, 128});
  x = inception(net, x, {"inception5b", 384, 192, 384, 48, 128, 128});
  net.at("head");
  x = net.dropout(net.flatten(net.global_average_pool(x)), 0.2);
  return std::move(net).finish({net.gemm(x, given["classes"])});
}

}  // namespace

std::vector<Network> googlenet_networks() {
  return {{"googlenet",
           "GoogLeNet with batch norm and without the auxiliary heads, as in torchvision (3x3 where the paper has 5x5)",
           "Szegedy et al., Going Deeper with Convolutions, 2015",
           {batch_parameter(64), image_parameter(224, 32), classes_parameter(1000)},
           &googlenet}};
}

}  // namespace trainyard::zoo
