#include <string>
#include <utility>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

constexpr double kEpsilon = 1e-3;

/// One cell: two inputs brought to the same width and size, five combinations of two of what there is, joined.
class Cell {
 public:
  Cell(LayerBuilder& net, std::string layer, std::int64_t filters)
      : net_(net), layer_(std::move(layer)), filters_(filters) {}

  /// An input at the cell's size: ReLU, 1x1 convolution, batch norm.
  ValueId fitted(const char* branch, ValueId x) {
    enter(branch);
    return net_.batch_norm(net_.conv(net_.relu(x), {.channels = filters_}), kEpsilon);
  }

  /// An input at twice the cell's size: every second pixel, beginning at the first and at the second one.
  ValueId halved(const char* branch, ValueId x) {
    enter(branch);
    x = net_.relu(x);
    const Pooling every_second = {.kernel = 1, .stride = 2};
    const ValueId even = net_.conv(net_.average_pool(x, every_second), {.channels = filters_ / 2});
    const ValueId shifted = net_.append("Pad", {x, net_.constant({0, 0, -1, -1, 0, 0, 1, 1})});
    const ValueId odd = net_.conv(net_.average_pool(shifted, every_second), {.channels = filters_ - filters_ / 2});
    return net_.batch_norm(net_.concat({even, odd}, 1), kEpsilon);
  }

  /// Two separable convolutions; the first one takes the stride.
  ValueId separable(ValueId x, std::int64_t kernel, std::int64_t stride = 1) {
    x = separable_once(net_.relu(x), kernel, stride);
    return separable_once(net_.relu(x), kernel, 1);
  }
  ValueId average(ValueId x, std::int64_t stride = 1) {
    return net_.average_pool(x, {.kernel = 3, .stride = stride, .padding = 1, .count_padding = false});
  }
  ValueId maximum(ValueId x) { return net_.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1}); }

  void enter(const char* branch) { net_.at(layer_ + "/" + branch); }
  void leave() { net_.at(layer_); }
  LayerBuilder& net() { return net_; }

 private:
  ValueId separable_once(ValueId x, std::int64_t kernel, std::int64_t stride) {
    const std::int64_t channels = net_.shape(x)[1];
    x = net_.conv(x, {.channels = channels,
                      .kernel = {kernel, kernel},
                      .stride = stride,
                      .padding = {kernel / 2, kernel / 2},
                      .groups = channels});
    return net_.batch_norm(net_.conv(x, {.channels = filters_}), kEpsilon);
  }

  LayerBuilder& net_;
  std::string layer_;
  std::int64_t filters_;
};

ValueId normal(Cell cell, ValueId left, ValueId right) {
  LayerBuilder& net = cell.net();
  cell.enter("comb_iter_0");
  const ValueId first = net.add(cell.separable(right, 5), cell.separable(left, 3));
  cell.enter("comb_iter_1");
  const ValueId second = net.add(cell.separable(left, 5), cell.separable(left, 3));
  cell.enter("comb_iter_2");
  const ValueId third = net.add(cell.average(right), left);
  cell.enter("comb_iter_3");
  const ValueId fourth = net.add(cell.average(left), cell.average(left));
  cell.enter("comb_iter_4");
  const ValueId fifth = net.add(cell.separable(right, 3), right);
  cell.leave();
  return net.concat({left, first, second, third, fourth, fifth}, 1);
}

ValueId reduction(Cell cell, ValueId left, ValueId right) {
  LayerBuilder& net = cell.net();
  cell.enter("comb_iter_0");
  const ValueId first = net.add(cell.separable(right, 5, 2), cell.separable(left, 7, 2));
  cell.enter("comb_iter_1");
  const ValueId second = net.add(cell.maximum(right), cell.separable(left, 7, 2));
  cell.enter("comb_iter_2");
  const ValueId third = net.add(cell.average(right, 2), cell.separable(left, 5, 2));
  cell.enter("comb_iter_3");
  const ValueId fourth = net.add(cell.average(first), second);
  cell.enter("comb_iter_4");
  const ValueId fifth = net.add(cell.separable(first, 3), cell.maximum(right));
  cell.leave();
  return net.concat({second, third, fourth, fifth}, 1);
}

Model nasnet(const NetworkArguments& given) {
  const std::int64_t filters = given["filters"];
  require_multiple("filters", filters, 4);
  LayerBuilder net{given.network()};
  const ValueId image = net.input("image", {given["batch"], 3, given["image"], given["image"]});
  net.at("stem");
  const ValueId stem =
      net.batch_norm(net.conv(image, {.channels = given["stem"], .kernel = {3, 3}, .stride = 2}), kEpsilon);

  Cell stem_0{net, "cell_stem_0", filters / 4};
  ValueId previous = reduction(stem_0, stem, stem_0.fitted("right", stem));
  Cell stem_1{net, "cell_stem_1", filters / 2};
  const ValueId stem_1_right = stem_1.fitted("right", previous);
  ValueId current = reduction(stem_1, stem_1.halved("left", stem), stem_1_right);

  std::int64_t index = 0;
  for (std::int64_t stage = 0; stage < 3; ++stage) {
    const std::int64_t width = filters << stage;
    if (stage > 0) {
      Cell cell{net, "reduction_cell_" + std::to_string(stage - 1), width};
      const ValueId left = cell.fitted("left", previous);
      current = reduction(cell, left, cell.fitted("right", current));  // `previous` stays, at twice the size
    }
    for (std::int64_t i = 0; i < given["cells"]; ++i, ++index) {
      Cell cell{net, "cell_" + std::to_string(index), width};
      const ValueId left = i == 0 ? cell.halved("left", previous) : cell.fitted("left", previous);
      const ValueId next = normal(cell, left, cell.fitted("right", current));
      previous = std::exchange(current, next);
    }
  }

  net.at("head");
  const ValueId features = net.flatten(net.global_average_pool(net.relu(current)));
  return std::move(net).finish({net.gemm(net.dropout(features, 0.5), given["classes"])});
}

Network preset(const char* name, const char* summary, std::int64_t batch, std::int64_t image, std::int64_t cells,
               std::int64_t filters, std::int64_t stem) {
  return {name,
          summary,
          "Zoph et al., Learning Transferable Architectures, 2018",
          {batch_parameter(batch),
           image_parameter(image, 32),
           classes_parameter(1000),
           {"cells", cells, 1, 128, "normal cells in each of the three stages"},
           {"filters", filters, 4, 4096, "filters of the first stage's cells; doubled at each reduction"},
           {"stem", stem, 1, 4096, "filters of the first convolution"}},
          &nasnet};
}

}  // namespace

std::vector<Network> nasnet_networks() {
  return {
      preset("nasnet_mobile", "NASNet-A (4 @ 1056), no auxiliary head; paddings symmetric where the original crops", 32,
             224, 4, 44, 32),
      preset("nasnet_large", "NASNet-A (6 @ 4032), no auxiliary head; paddings symmetric where the original crops", 16,
             331, 6, 168, 96),
  };
}

}  // namespace trainyard::zoo
