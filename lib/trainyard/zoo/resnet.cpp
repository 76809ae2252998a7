#include <array>
#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

ValueId conv_norm(LayerBuilder& net, ValueId x, const Convolution& how) { return net.batch_norm(net.conv(x, how)); }

/// The shortcut of a block: the input itself if its shape fits the block's output, else a 1x1 convolution of it.
ValueId shortcut(LayerBuilder& net, ValueId x, std::int64_t channels, std::int64_t stride) {
  if (net.shape(x)[1] == channels && stride == 1) return x;
  return conv_norm(net, x, {.channels = channels, .stride = stride});
}

ValueId basic_block(LayerBuilder& net, ValueId x, std::int64_t width, std::int64_t stride) {
  ValueId y = net.relu(conv_norm(net, x, {.channels = width, .kernel = {3, 3}, .stride = stride, .padding = {1, 1}}));
  y = conv_norm(net, y, {.channels = width, .kernel = {3, 3}, .padding = {1, 1}});
  return net.relu(net.add(y, shortcut(net, x, width, stride)));
}

/// A bottleneck whose 3x3 convolution has `widening` times `width` channels.
ValueId wide_bottleneck(LayerBuilder& net, ValueId x, std::int64_t width, std::int64_t stride, std::int64_t widening) {
  ValueId y = net.relu(conv_norm(net, x, {.channels = width}));
  y = net.relu(
      conv_norm(net, y, {.channels = widening * width, .kernel = {3, 3}, .stride = stride, .padding = {1, 1}}));
  y = conv_norm(net, y, {.channels = 4 * width});
  return net.relu(net.add(y, shortcut(net, x, 4 * width, stride)));
}

ValueId bottleneck(LayerBuilder& net, ValueId x, std::int64_t width, std::int64_t stride) {
  return wide_bottleneck(net, x, width, stride, 1);
}

template <class Block>
Model resnet(const NetworkArguments& given, std::int64_t base, const Block& block, const std::array<int, 4>& blocks) {
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given);
  net.at("stem");
  x = net.relu(conv_norm(net, x, {.channels = base, .kernel = {7, 7}, .stride = 2, .padding = {3, 3}}));
  x = net.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
  std::int64_t width = base;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage, width *= 2) {
    for (int i = 0; i < blocks[stage]; ++i) {
      net.at("layer" + std::to_string(stage + 1) + "." + std::to_string(i));
      x = block(net, x, width, i == 0 && stage > 0 ? 2 : 1);
    }
  }
  net.at("head");
  x = net.flatten(net.global_average_pool(x));
  return std::move(net).finish({net.gemm(x, given["classes"])});
}

template <auto block, int... Repeats>
Model resnet_of(const NetworkArguments& given) {
  return resnet(given, 64, block, {Repeats...});
}

template <int... Repeats>
Model wide_resnet_of(const NetworkArguments& given) {
  const auto block = [&](LayerBuilder& net, ValueId x, std::int64_t width, std::int64_t stride) {
    return wide_bottleneck(net, x, width, stride, given["widening"]);
  };
  return resnet(given, given["base"], block, {Repeats...});
}

Network wide_resnet(const char* name, const char* summary, std::int64_t widening,
                    Model (*build)(const NetworkArguments&)) {
  return {name,
          summary,
          "Zagoruyko and Komodakis, Wide Residual Networks, 2016; bottlenecks and sizes as in Zheng et al., Alpa, 2022",
          {batch_parameter(32),
           image_parameter(224, 32),
           classes_parameter(1024),
           {"base", 320, 1, 4096, "channels of the stem, and of the first stage's bottlenecks"},
           {"widening", widening, 1, 64, "channels of the 3x3 convolutions, as a multiple of the bottleneck's width"}},
          build};
}

}  // namespace

std::vector<Network> resnet_networks() {
  const std::string source = "He et al., Deep Residual Learning, 2016";
  const std::vector<NetworkParameter> parameters = {batch_parameter(32), image_parameter(224, 32),
                                                    classes_parameter(1000)};
  const std::string stride = " (stride in the 3x3 convolution, as in torchvision)";
  return {
      {"resnet18", "ResNet-18: basic blocks 2, 2, 2, 2", source, parameters, &resnet_of<basic_block, 2, 2, 2, 2>},
      {"resnet34", "ResNet-34: basic blocks 3, 4, 6, 3", source, parameters, &resnet_of<basic_block, 3, 4, 6, 3>},
      {"resnet50", "ResNet-50: bottlenecks 3, 4, 6, 3" + stride, source, parameters,
       &resnet_of<bottleneck, 3, 4, 6, 3>},
      {"resnet101", "ResNet-101: bottlenecks 3, 4, 23, 3" + stride, source, parameters,
       &resnet_of<bottleneck, 3, 4, 23, 3>},
      {"resnet152", "ResNet-152: bottlenecks 3, 8, 36, 3" + stride, source, parameters,
       &resnet_of<bottleneck, 3, 8, 36, 3>},
      {"resnet200", "ResNet-200: bottlenecks 3, 24, 36, 3, not pre-activated" + stride,
       "He et al., Identity Mappings, 2016 (depths); " + source, parameters, &resnet_of<bottleneck, 3, 24, 36, 3>},
      wide_resnet("wide_resnet50", "Wide-ResNet-50 as in Alpa: base 160, 224, 320, 448, 640 for 0.25 to 4 G parameters",
                  2, &wide_resnet_of<3, 4, 6, 3>),
      wide_resnet("wide_resnet101", "Wide-ResNet-101 as in Alpa: 13 G parameters", 16, &wide_resnet_of<3, 4, 23, 3>),
  };
}

}  // namespace trainyard::zoo
