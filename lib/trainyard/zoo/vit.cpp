#include <string>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

ValueId vit_layer(LayerBuilder& net, ValueId x, const NetworkArguments& given) {
  const std::int64_t width = net.shape(x).back();
  const auto qkv = net.split(net.linear(net.layer_norm(x, 1e-6), 3 * width), 2, 3);
  const ValueId mixed = net.attention(qkv[0], qkv[1], qkv[2], {.heads = given["heads"], .fused = given["fused"] != 0});
  x = net.add(x, net.linear(mixed, width));
  const ValueId wide = net.gelu(net.linear(net.layer_norm(x, 1e-6), 4 * width));
  return net.add(x, net.linear(wide, width));
}

Model vit(const NetworkArguments& given) {
  const std::int64_t batch = given["batch"], width = given["hidden"], patch = given["patch"];
  require_multiple("image", given["image"], patch, "patch");
  const std::int64_t side = given["image"] / patch, patches = side * side;
  LayerBuilder net{given.network()};
  ValueId x = image_input(net, given);
  net.at("embedding");
  x = net.conv(x, {.channels = width, .kernel = {patch, patch}, .stride = patch, .bias = true});
  x = net.transpose(net.reshape(x, {batch, width, patches}), {0, 2, 1});
  const ValueId token = net.parameter("class_token", {1, 1, width});
  const ValueId tokens = net.append("Expand", {token, net.constant({batch, 1, width})});
  x = net.add(net.concat({tokens, x}, 1), net.parameter("positions", {1, patches + 1, width}));
  for (std::int64_t layer = 0; layer < given["layers"]; ++layer) {
    net.at("encoder." + std::to_string(layer));
    x = vit_layer(net, x, given);
  }
  net.at("head");
  x = net.select(net.layer_norm(x, 1e-6), 1, 0);
  return std::move(net).finish({net.gemm(x, given["classes"])});
}

}  // namespace

std::vector<Network> vit_networks() {
  return {{"vit_b_16",
           "ViT-B/16: 12 layers of width 768 over 16x16 patches, no dropout, as in torchvision",
           "Dosovitskiy et al., An Image is Worth 16x16 Words, 2021",
           {batch_parameter(32),
            image_parameter(224, 1),
            classes_parameter(1000),
            layers_parameter(12),
            hidden_parameter(768),
            heads_parameter(12),
            {"patch", 16, 1, 1024, "height and width of a patch in pixels"},
            fused_parameter()},
           &vit}};
}

}  // namespace trainyard::zoo
