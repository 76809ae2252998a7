#include <string>
#include <vector>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

constexpr Convolution narrow(std::int64_t channels) { return {.channels = channels}; }
constexpr Convolution conv3x3(std::int64_t channels) {
  return {.channels = channels, .kernel = {3, 3}, .padding = {1, 1}};
}
constexpr Convolution conv5x5(std::int64_t channels) {
  return {.channels = channels, .kernel = {5, 5}, .padding = {2, 2}};
}
constexpr Convolution conv1x7(std::int64_t channels) {
  return {.channels = channels, .kernel = {1, 7}, .padding = {0, 3}};
}
constexpr Convolution conv7x1(std::int64_t channels) {
  return {.channels = channels, .kernel = {7, 1}, .padding = {3, 0}};
}
/// 3x3 without padding, with stride 2: halves the map.
constexpr Convolution halving(std::int64_t channels) { return {.channels = channels, .kernel = {3, 3}, .stride = 2}; }

/// The branches of one module, concatenated along the channels at its end.
class Module {
 public:
  Module(LayerBuilder& net, std::string layer, ValueId x) : net_(net), layer_(std::move(layer)), x_(x) {}

  /// A chain of convolutions, each with batch norm and ReLU.
  Module& branch(const std::string& name, const std::vector<Convolution>& convolutions) {
    net_.at(layer_ + "/" + name);
    ends_.push_back(chain(x_, convolutions));
    return *this;
  }
  Module& pooled_branch(std::int64_t channels) {
    net_.at(layer_ + "/branch_pool");
    ends_.push_back(chain(net_.average_pool(x_, {.kernel = 3, .stride = 1, .padding = 1}), {narrow(channels)}));
    return *this;
  }
  Module& halving_pool() {
    net_.at(layer_ + "/branch_pool");
    ends_.push_back(net_.max_pool(x_, {}));
    return *this;
  }
  /// A branch that ends in parallel 1x3 and 3x1 convolutions.
  Module& forked_branch(const std::string& name, const std::vector<Convolution>& convolutions) {
    net_.at(layer_ + "/" + name);
    const ValueId trunk = chain(x_, convolutions);
    const ValueId flat = chain(trunk, {{.channels = 384, .kernel = {1, 3}, .padding = {0, 1}}});
    const ValueId tall = chain(trunk, {{.channels = 384, .kernel = {3, 1}, .padding = {1, 0}}});
    ends_.push_back(net_.concat({flat, tall}, 1));
    return *this;
  }
  ValueId joined() {
    net_.at(layer_);
    return net_.concat(ends_, 1);
  }

 private:
  ValueId chain(ValueId x, const std::vector<Convolution>& convolutions) {
    for (const auto& how : convolutions) x = net_.relu(net_.batch_norm(net_.conv(x, how), 1e-3));
    return x;
  }

  LayerBuilder& net_;
  std::string layer_;
  ValueId x_;
  std::vector<ValueId> ends_;
};

ValueId stem(LayerBuilder& net, ValueId x) {
  net.at("stem");
  const auto conv = [&](const Convolution& how) { x = net.relu(net.batch_norm(net.conv(x, how), 1e-3)); };
  conv(halving(32));
  conv({.channels = 32, .kernel = {3, 3}});
  conv(conv3x3(64));
  x = net.max_pool(x, {});
  conv(narrow(80));
  conv({.channels = 192, .kernel = {3, 3}});
  return net.max_pool(x, {});
}

ValueId module_35x35(LayerBuilder& net, const std::string& layer, ValueId x, std::int64_t pooled) {
  return Module{net, layer, x}
      .branch("branch1x1", {narrow(64)})
      .branch("branch5x5", {narrow(48), conv5x5(64)})
      .branch("branch3x3dbl", {narrow(64), conv3x3(96), conv3x3(96)})
      .pooled_branch(pooled)
      .joined();
}

ValueId module_17x17(LayerBuilder& net, const std::string& layer, ValueId x, std::int64_t inner) {
  return Module{net, layer, x}
      .branch("branch1x1", {narrow(192)})
      .branch("branch7x7", {narrow(inner), conv1x7(inner), conv7x1(192)})
      .branch("branch7x7dbl", {narrow(inner), conv7x1(inner), conv1x7(inner), conv7x1(inner), conv1x7(192)})
      .pooled_branch(192)
      .joined();
}

ValueId module_8x8(LayerBuilder& net, const std::string& layer, ValueId x) {
  return Module{net, layer, x}
      .branch("branch1x1", {narrow(320)})
      .forked_branch("branch3x3", {narrow(384)})
      .forked_branch("branch3x3dbl", {narrow(448), conv3x3(384)})
      .pooled_branch(192)
      .joined();
}

Model inception_v3(const NetworkArguments& given) {
  LayerBuilder net{given.network()};
  ValueId x = stem(net, image_input(net, given));
  x = module_35x35(net, "mixed_5b", x, 32);
  x = module_35x35(net, "mixed_5c", x, 64);
  x = module_35x35(net, "mixed_5d", x, 64);
  x = Module{net, "mixed_6a", x}
          .branch("branch3x3", {halving(384)})
          .branch("branch3x3dbl", {narrow(64), conv3x3(96), halving(96)})
          .halving_pool()
          .joined();
  x = module_17x17(net, "mixed_6b", x, 128);
  x = module_17x17(net, "mixed_6c", x, 160);
  x = module_17x17(net, "mixed_6d", x, 160);
  x = module_17x17(net, "mixed_6e", x, 192);
  x = Module{net, "mixed_7a", x}
          .branch("branch3x3", {narrow(192), halving(320)})
          .branch("branch7x7x3", {narrow(192), conv1x7(192), conv7x1(192), halving(192)})
          .halving_pool()
          .joined();
  x = module_8x8(net, "mixed_7b", x);
  x = module_8x8(net, "mixed_7c", x);
  net.at("head");
  x = net.flatten(net.dropout(net.global_average_pool(x), 0.5));
  return std::move(net).finish({net.gemm(x, given["classes"])});
}

}  // namespace

std::vector<Network> inception_networks() {
  return {{"inception_v3",
           "Inception-v3 without the auxiliary head, as in torchvision",
           "Szegedy et al., Rethinking the Inception Architecture, 2016",
           {batch_parameter(32), image_parameter(299, 75), classes_parameter(1000)},
           &inception_v3}};
}

}  // namespace trainyard::zoo
