#include "trainyard/io/pytorch/pytorch_flops.hpp"

namespace trainyard {
namespace {

double elements_of(const std::vector<std::int64_t>& shape) {
  double product = 1;
  for (const std::int64_t size : shape) product *= static_cast<double>(size);
  return product;
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  for (const std::string_view each : words)
    if (word == each) return true;
  return false;
}

}  // namespace

double trace_flops(std::string_view type, const std::vector<std::vector<std::int64_t>>& shapes, std::int64_t made) {
  if (!type.starts_with("aten::")) return 0;
  type.remove_prefix(6);
  const auto shape = [&](std::size_t i) { return i < shapes.size() ? shapes[i] : std::vector<std::int64_t>{}; };
  const auto product = [](const auto& left, const auto& right) {
    return left.empty() || right.empty() ? 0 : 2 * elements_of(left) * static_cast<double>(right.back());
  };
  const auto convolved = [&](double results, const auto& weight) {
    return weight.empty() || weight.front() <= 0
               ? 0
               : 2 * results * elements_of(weight) / static_cast<double>(weight.front());
  };
  if (one_of(type, {"mm", "bmm"})) return product(shape(0), shape(1));
  if (one_of(type, {"addmm", "addmm_", "baddbmm", "baddbmm_", "_addmm_activation"})) return product(shape(1), shape(2));
  if (type == "linear")
    return shape(0).empty() || shape(1).empty() ? 0 : 2 * elements_of(shape(0)) * static_cast<double>(shape(1).front());
  if (one_of(type, {"cudnn_convolution", "miopen_convolution", "convolution", "_convolution",
                    "convolution_overrideable", "mkldnn_convolution", "thnn_conv2d", "_slow_conv2d_forward",
                    "_conv_depthwise2d", "cudnn_convolution_relu"}))
    return convolved(static_cast<double>(made), shape(1));
  if (one_of(type, {"convolution_backward", "miopen_convolution_backward"}))
    return 2 * convolved(shape(0).empty() ? 0 : elements_of(shape(0)), shape(2));
  return 0;
}

}  // namespace trainyard
