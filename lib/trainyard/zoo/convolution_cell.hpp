#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

/// Building blocks of the cells of architecture search. A cell brings two inputs to the same width and size. It then
/// repeatedly applies an operation to each of two available values and adds the results.
class ConvolutionCell {
 public:
  static constexpr double kEpsilon = 1e-3;  // of batch norms

  ConvolutionCell(LayerBuilder& net, std::string layer, std::int64_t filters)
      : net_(net), layer_(std::move(layer)), filters_(filters) {}

  /// Fits an input of the cell's size to its width: ReLU, 1x1 convolution, batch norm.
  ValueId fitted(const std::string& branch, ValueId x) {
    enter(branch);
    return net_.batch_norm(net_.conv(net_.relu(x), {.channels = filters_}), kEpsilon);
  }

  /// Fits an input of twice the cell's size: takes every second pixel, once from the first and once from the second
  /// pixel on.
  ValueId halved(const std::string& branch, ValueId x) {
    enter(branch);
    x = net_.relu(x);
    const Pooling every_second = {.kernel = 1, .stride = 2};
    const ValueId even = net_.conv(net_.average_pool(x, every_second), {.channels = filters_ / 2});
    const ValueId shifted = net_.append("Pad", {x, net_.constant({0, 0, -1, -1, 0, 0, 1, 1})});
    const ValueId odd = net_.conv(net_.average_pool(shifted, every_second), {.channels = filters_ - filters_ / 2});
    return net_.batch_norm(net_.concat({even, odd}, 1), kEpsilon);
  }

  /// Two separable convolutions. The first one has the stride.
  ValueId separable(ValueId x, std::int64_t kernel, std::int64_t stride = 1) {
    x = separable_once(net_.relu(x), kernel, stride);
    return separable_once(net_.relu(x), kernel, 1);
  }
  ValueId average(ValueId x, std::int64_t stride = 1) {
    return net_.average_pool(x, {.kernel = 3, .stride = stride, .padding = 1, .count_padding = false});
  }
  ValueId maximum(ValueId x, std::int64_t stride = 1) {
    return net_.max_pool(x, {.kernel = 3, .stride = stride, .padding = 1});
  }

  void enter(const std::string& branch) { net_.at(layer_ + "/" + branch); }
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

}  // namespace trainyard::zoo
