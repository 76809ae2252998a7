#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cpu {
namespace {

/// An input element along one dimension, and its weight in the interpolation of an output element.
struct Tap {
  std::int64_t from;
  float weight;
};
using Taps = std::vector<std::vector<Tap>>;  // by index in the output

/// ONNX Resize and Upsample along one dimension, from `in` to `out` elements. Upsample is asymmetric, and its nearest
/// element is the one below.
class Line {
 public:
  Line(const Node& node, std::int64_t in, std::int64_t out, double scale) : in_(in), out_(out), scale_(scale) {
    const bool upsample = node.type == "Upsample" || node.inputs.size() == 2;  // Resize of opset 10 has no modes yet
    mode_ = node.text("mode", "nearest");
    place_ = upsample ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel");
    nearest_ = upsample ? "floor" : node.text("nearest_mode", "round_prefer_floor");
    a_ = node.real("cubic_coeff_a", -0.75);
  }

  Taps taps() const {
    Taps result(static_cast<std::size_t>(out_));
    for (std::int64_t i = 0; i < out_; ++i) {
      std::vector<Tap>& to = result[static_cast<std::size_t>(i)];
      const double x = source(static_cast<double>(i));
      if (mode_ == "nearest") {
        to.push_back({clamped(nearest(x)), 1.0F});
        continue;
      }
      const double below = std::floor(x), t = x - below;
      const auto first = static_cast<std::int64_t>(below);
      if (mode_ == "linear") {
        to.push_back({clamped(first), static_cast<float>(1 - t)});
        to.push_back({clamped(first + 1), static_cast<float>(t)});
        continue;
      }
      for (std::int64_t k = -1; k <= 2; ++k)
        to.push_back({clamped(first + k), static_cast<float>(cubic(std::abs(t - static_cast<double>(k))))});
    }
    return result;
  }

 private:
  double source(double i) const {
    if (place_ == "asymmetric") return i / scale_;
    if (place_ == "align_corners")
      return out_ == 1 ? 0 : i * static_cast<double>(in_ - 1) / static_cast<double>(out_ - 1);
    if (place_ == "pytorch_half_pixel" && out_ == 1) return 0;
    if (place_ == "half_pixel_symmetric") {
      const double adjusted = static_cast<double>(out_) / (scale_ * static_cast<double>(in_));
      const double centre = static_cast<double>(in_) / 2;
      return centre * (1 - adjusted) + (i + 0.5) / scale_ - 0.5;
    }
    return (i + 0.5) / scale_ - 0.5;
  }
  std::int64_t nearest(double x) const {
    if (nearest_ == "floor") return static_cast<std::int64_t>(std::floor(x));
    if (nearest_ == "ceil") return static_cast<std::int64_t>(std::ceil(x));
    if (nearest_ == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
    return static_cast<std::int64_t>(std::ceil(x - 0.5));
  }
  double cubic(double t) const {
    if (t <= 1) return ((a_ + 2) * t - (a_ + 3)) * t * t + 1;
    return ((a_ * t - 5 * a_) * t + 8 * a_) * t - 4 * a_;
  }
  std::int64_t clamped(std::int64_t i) const { return std::clamp<std::int64_t>(i, 0, in_ - 1); }

  std::int64_t in_, out_;
  double scale_, a_ = -0.75;
  std::string mode_, place_, nearest_;
};

/// Scales by dimension; 0 if the node gives sizes instead.
std::vector<double> given_scales(const OpArrays& c, std::size_t rank) {
  std::vector<double> scales, result(rank, 0);
  if (const auto attribute = c.node.attributes.find("scales"); attribute != c.node.attributes.end()) {
    if (const auto* list = std::get_if<std::vector<double>>(&attribute->second)) scales = *list;
  } else if (const ValueId id = input_at(c.node, c.node.inputs.size() == 2 ? 1 : 2); !id.is_none()) {
    scales = c.value(id).reals;
  }
  const auto axes = c.node.integers("axes");
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::size_t d = axes.empty() ? i : axis_at(axes[i], rank);
    if (d < rank) result[d] = scales[i];
  }
  return result;
}

/// Calls f(output index, input index, weight) for all pairs with a weight.
template <class F>
void each_pair(const OpArrays& c, F&& f) {
  const Shape& in = c.value(c.node.inputs[0]).shape;
  const Shape& out = c.value(c.node.outputs[0]).shape;
  const std::size_t rank = in.size();
  const std::vector<double> given = given_scales(c, rank);
  std::vector<Taps> taps;
  for (std::size_t d = 0; d < rank; ++d) {
    if (in[d] == out[d]) {
      Taps same(static_cast<std::size_t>(in[d]));
      for (std::size_t i = 0; i < same.size(); ++i) same[i] = {{static_cast<std::int64_t>(i), 1.0F}};
      taps.push_back(std::move(same));
      continue;
    }
    const double scale = given[d] > 0 ? given[d] : static_cast<double>(out[d]) / static_cast<double>(in[d]);
    taps.push_back(Line{c.node, in[d], out[d], scale}.taps());
  }
  std::vector<std::int64_t> index(rank, 0);
  std::vector<Tap> pairs, next;
  for (std::int64_t o = 0, n = elements(out); o < n; ++o) {
    pairs.assign(1, {0, 1.0F});
    for (std::size_t d = 0; d < rank; ++d) {
      next.clear();
      for (const Tap& tap : taps[d][static_cast<std::size_t>(index[d])])
        for (const Tap& pair : pairs)
          if (tap.weight != 0) next.push_back({pair.from * in[d] + tap.from, pair.weight * tap.weight});
      pairs.swap(next);
    }
    for (const Tap& pair : pairs) f(o, pair.from, pair.weight);
    for (std::size_t d = rank; d-- > 0;) {
      if (++index[d] < out[d]) break;
      index[d] = 0;
    }
  }
}

void resize(OpArrays& c) {
  std::fill(c.out[0].data, c.out[0].data + c.out[0].size(), 0.0F);
  each_pair(
      c, [&](std::int64_t to, std::int64_t from, float weight) { c.out[0].data[to] += weight * c.in[0].data[from]; });
}

void resize_backward(OpArrays& c) {
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_pair(c,
            [&](std::int64_t to, std::int64_t from, float weight) { c.dx[0].data[from] += weight * c.dy[0].data[to]; });
}

constexpr OpKernels kResize[] = {{"Resize", resize, resize_backward}, {"Upsample", resize, resize_backward}};

}  // namespace

std::span<const OpKernels> resize_kernels() { return kResize; }

}  // namespace trainyard::cpu
