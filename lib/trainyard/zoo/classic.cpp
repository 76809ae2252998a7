#include <cstdint>
#include <vector>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

Model lenet(const NetworkArguments& given) {
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given, 1);
  net.at("conv1");
  x = net.relu(net.conv(x, {.channels = 6, .kernel = {5, 5}, .padding = {2, 2}, .bias = true}));
  x = net.max_pool(x, {.kernel = 2, .stride = 2});
  net.at("conv2");
  x = net.relu(net.conv(x, {.channels = 16, .kernel = {5, 5}, .bias = true}));
  x = net.max_pool(x, {.kernel = 2, .stride = 2});
  net.at("fc1");
  x = net.relu(net.gemm(net.flatten(x), 120));
  net.at("fc2");
  x = net.relu(net.gemm(x, 84));
  net.at("fc3");
  return std::move(net).finish({net.gemm(x, given["classes"])});
}

/// Place of the dropout of the first two layers: before them in AlexNet, after them in VGG.
enum class DropoutAt { before, after };

ValueId classifier(LayerBuilder& net, ValueId x, std::int64_t classes, DropoutAt dropout) {
  for (const char* layer : {"classifier.0", "classifier.1"}) {
    net.at(layer);
    if (dropout == DropoutAt::before) x = net.dropout(x, 0.5);
    x = net.relu(net.gemm(x, 4096));
    if (dropout == DropoutAt::after) x = net.dropout(x, 0.5);
  }
  net.at("classifier.2");
  return net.gemm(x, classes);
}

Model alexnet(const NetworkArguments& given) {
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given);
  net.at("conv1");
  x = net.relu(net.conv(x, {.channels = 64, .kernel = {11, 11}, .stride = 4, .padding = {2, 2}, .bias = true}));
  x = net.max_pool(x, {});
  net.at("conv2");
  x = net.relu(net.conv(x, {.channels = 192, .kernel = {5, 5}, .padding = {2, 2}, .bias = true}));
  x = net.max_pool(x, {});
  const struct {
    const char* layer;
    std::int64_t channels;
  } same_size[] = {{"conv3", 384}, {"conv4", 256}, {"conv5", 256}};
  for (const auto& conv : same_size) {
    net.at(conv.layer);
    x = net.relu(net.conv(x, {.channels = conv.channels, .kernel = {3, 3}, .padding = {1, 1}, .bias = true}));
  }
  x = net.max_pool(x, {});
  net.at("pool");
  x = net.flatten(net.adaptive_average_pool(x, 6));
  return std::move(net).finish({classifier(net, x, given["classes"], DropoutAt::before)});
}

/// `stages`: number of convolutions in each stage. Stages have 64, 128, 256, 512 and 512 channels and end in a pooling.
Model vgg(const NetworkArguments& given, const std::vector<int>& stages) {
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given);
  std::int64_t channels = 64;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i) {
      net.at("conv" + std::to_string(stage + 1) + "." + std::to_string(i));
      x = net.relu(net.conv(x, {.channels = channels, .kernel = {3, 3}, .padding = {1, 1}, .bias = true}));
    }
    x = net.max_pool(x, {.kernel = 2, .stride = 2});
    channels = channels < 512 ? 2 * channels : channels;
  }
  net.at("pool");
  x = net.flatten(net.adaptive_average_pool(x, 7));
  return std::move(net).finish({classifier(net, x, given["classes"], DropoutAt::after)});
}

}  // namespace

std::vector<Network> classic_networks() {
  const std::string vgg_source = "Simonyan and Zisserman, Very Deep Convolutional Networks, 2015";
  const std::vector<NetworkParameter> vgg_parameters = {batch_parameter(64), image_parameter(224, 32),
                                                        classes_parameter(1000)};
  return {
      {"lenet",
       "LeNet-5: 2 convolutions, 3 dense layers, for 28x28 grey images",
       "LeCun et al., 1998",
       {batch_parameter(64), image_parameter(28, 12), classes_parameter(10)},
       &lenet},
      {"alexnet",
       "AlexNet in its one-tower form (2014), as in torchvision",
       "Krizhevsky, One weird trick, 2014",
       {batch_parameter(64), image_parameter(224, 63), classes_parameter(1000)},
       &alexnet},
      {"vgg16", "VGG-16 (D), 13 convolutions, no batch norm", vgg_source, vgg_parameters,
       [](const NetworkArguments& given) {
         return vgg(given, {2, 2, 3, 3, 3});
       }},
      {"vgg19", "VGG-19 (E), 16 convolutions, no batch norm", vgg_source, vgg_parameters,
       [](const NetworkArguments& given) {
         return vgg(given, {2, 2, 4, 4, 4});
       }},
  };
}

}  // namespace trainyard::zoo
