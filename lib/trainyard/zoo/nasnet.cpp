#include <string>
#include <utility>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/convolution_cell.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

using Cell = ConvolutionCell;

ValueId normal(Cell cell, ValueId left, ValueId right) {
  LayerBuilder& net = cell.net();
  cell.enter("comb_iter_0");
  const ValueId narrow = cell.separable(left, 3);
  const ValueId first = net.add(cell.separable(right, 5), narrow);
  cell.enter("comb_iter_1");
  const ValueId narrower = cell.separable(left, 3);
  const ValueId second = net.add(cell.separable(left, 5), narrower);
  cell.enter("comb_iter_2");
  const ValueId third = net.add(cell.average(right), left);
  cell.enter("comb_iter_3");
  const ValueId mean = cell.average(left);
  const ValueId fourth = net.add(cell.average(left), mean);
  cell.enter("comb_iter_4");
  const ValueId fifth = net.add(cell.separable(right, 3), right);
  cell.leave();
  return net.concat({left, first, second, third, fourth, fifth}, 1);
}

ValueId reduction(Cell cell, ValueId left, ValueId right) {
  LayerBuilder& net = cell.net();
  cell.enter("comb_iter_0");
  const ValueId wide = cell.separable(left, 7, 2);
  const ValueId first = net.add(cell.separable(right, 5, 2), wide);
  cell.enter("comb_iter_1");
  const ValueId wider = cell.separable(left, 7, 2);
  const ValueId second = net.add(cell.maximum(right, 2), wider);
  cell.enter("comb_iter_2");
  const ValueId middle = cell.separable(left, 5, 2);
  const ValueId third = net.add(cell.average(right, 2), middle);
  cell.enter("comb_iter_3");
  const ValueId fourth = net.add(cell.average(first), second);
  cell.enter("comb_iter_4");
  const ValueId most = cell.maximum(right, 2);
  const ValueId fifth = net.add(cell.separable(first, 3), most);
  cell.leave();
  return net.concat({second, third, fourth, fifth}, 1);
}

Model nasnet(const NetworkArguments& given) {
  const std::int64_t filters = given["filters"];
  require_multiple("filters", filters, 4);
  LayerBuilder net{given.network()};
  const ValueId image = image_input(net, given);
  net.at("stem");
  const ValueId stem =
      net.batch_norm(net.conv(image, {.channels = given["stem"], .kernel = {3, 3}, .stride = 2}), Cell::kEpsilon);

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
      current = reduction(cell, left, cell.fitted("right", current));  // `previous` keeps twice the size
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

Network nasnet_preset(const char* name, const char* summary, std::int64_t batch, std::int64_t image, std::int64_t cells,
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
      nasnet_preset("nasnet_mobile",
                    "NASNet-A (4 @ 1056), no auxiliary head; symmetric padding where the original crops", 32, 224, 4,
                    44, 32),
      nasnet_preset("nasnet_large",
                    "NASNet-A (6 @ 4032), no auxiliary head; symmetric padding where the original crops", 16, 331, 6,
                    168, 96),
  };
}

}  // namespace trainyard::zoo
