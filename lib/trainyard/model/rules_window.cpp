#include <fmt/format.h>

#include <cmath>

#include "trainyard/core/counted.hpp"
#include "trainyard/model/shape_rules.hpp"

namespace trainyard::detail {

namespace {

/// Geometry of a window that slides over the spatial dimensions (the third and later).
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pads_before, pads_after;
  std::string auto_pad;
};

void require_size(const ShapeContext& context, const std::vector<std::int64_t>& list, std::size_t size,
                  const char* what) {
  if (list.size() != size)
    context.fail(fmt::format("{} has {}, but needs {}", what, counted(list.size(), "number"), size));
}

Window window_of(const ShapeContext& context, std::vector<std::int64_t> kernel, std::size_t spatial) {
  Window window;
  window.kernel = context.small_integers("kernel_shape", std::move(kernel));
  require_size(context, window.kernel, spatial, "kernel_shape");
  window.strides = context.small_integers("strides");
  window.dilations = context.small_integers("dilations");
  std::vector<std::int64_t> pads = context.small_integers("pads");
  if (window.strides.empty()) window.strides.assign(spatial, 1);
  if (window.dilations.empty()) window.dilations.assign(spatial, 1);
  if (pads.empty()) pads.assign(2 * spatial, 0);
  require_size(context, window.strides, spatial, "strides");
  require_size(context, window.dilations, spatial, "dilations");
  require_size(context, pads, 2 * spatial, "pads");
  for (std::size_t i = 0; i < spatial; ++i) {
    context.require(window.kernel[i] >= 1, "kernel_shape holds a number below 1");
    context.require(window.strides[i] >= 1, "strides holds a number below 1");
    context.require(window.dilations[i] >= 1, "dilations holds a number below 1");
  }
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  window.pads_before.assign(pads.begin(), middle);
  window.pads_after.assign(middle, pads.end());
  window.auto_pad = context.node().text("auto_pad", "NOTSET");
  return window;
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

/// Number of positions of the window along dimension i.
std::int64_t slid(const ShapeContext& context, const Window& window, std::size_t i, std::int64_t extent,
                  bool round_up) {
  const std::int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
  const std::int64_t stride = window.strides[i];
  if (window.auto_pad == "SAME_UPPER" || window.auto_pad == "SAME_LOWER") return ceil_divide(extent, stride);
  const bool valid = window.auto_pad == "VALID";
  const std::int64_t before = valid ? 0 : window.pads_before[i];
  const std::int64_t room = extent + before + (valid ? 0 : window.pads_after[i]) - reach;
  if (room < 0) context.fail(fmt::format("a window of {} does not fit into {} with its padding", reach, extent));
  std::int64_t positions = (round_up ? ceil_divide(room, stride) : room / stride) + 1;
  // A window that would start in the padding after the input is left out.
  if (round_up && (positions - 1) * stride >= extent + before) --positions;
  return positions;
}

void convolution(ShapeContext& context) {
  context.require_rank(0, 3);
  const Shape& x = context.shape(0);
  const Shape& weight = context.shape(1);
  if (weight.size() != x.size()) {
    context.fail(
        fmt::format("input {} and weight {} have different numbers of dimensions", text_of(x), text_of(weight)));
  }
  const std::int64_t groups = context.small_integer("group", 1);
  context.require(groups >= 1, "group is below 1");
  if (x[1] % groups != 0 || x[1] / groups != weight[1])
    context.fail(
        fmt::format("the input has {} channels, but the weight has {} in each of {} groups", x[1], weight[1], groups));
  context.require(weight[0] % groups == 0, "the output channels cannot be divided equally among the groups");
  const Window window = window_of(context, Shape(weight.begin() + 2, weight.end()), x.size() - 2);
  Shape y = {x[0], weight[0]};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) y.push_back(slid(context, window, i, x[i + 2], false));
  context.output(0, std::move(y), context.type(0));
}

void transposed_convolution(ShapeContext& context) {
  context.require_rank(0, 3);
  const Shape& x = context.shape(0);
  const Shape& weight = context.shape(1);
  context.require(weight.size() == x.size(), "input and weight have different numbers of dimensions");
  context.require(x[1] == weight[0], fmt::format("the input has {} channels, but the weight has {}", x[1], weight[0]));
  const std::int64_t groups = context.small_integer("group", 1);
  context.require(groups >= 1, "group is below 1");
  const std::size_t spatial = x.size() - 2;
  const Window window = window_of(context, Shape(weight.begin() + 2, weight.end()), spatial);
  std::vector<std::int64_t> more = context.small_integers("output_padding");
  if (more.empty()) more.assign(spatial, 0);
  require_size(context, more, spatial, "output_padding");
  const std::vector<std::int64_t> given = context.small_integers("output_shape");
  context.require(weight[1] <= kLargestDimension / groups, "too many output channels");
  Shape y = {x[0], weight[1] * groups};
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t extent = x[i + 2], stride = window.strides[i];
    context.require(extent <= kLargestDimension / stride, "the output is too large");
    const std::int64_t full = (extent - 1) * stride + (window.kernel[i] - 1) * window.dilations[i] + 1 + more[i];
    if (!given.empty()) {
      context.require(given.size() == spatial || given.size() == x.size(), "output_shape has the wrong length");
      y.push_back(given[given.size() - spatial + i]);
    } else if (window.auto_pad == "SAME_UPPER" || window.auto_pad == "SAME_LOWER") {
      y.push_back(extent * stride);
    } else if (window.auto_pad == "VALID") {
      y.push_back(full);
    } else {
      y.push_back(full - window.pads_before[i] - window.pads_after[i]);
    }
  }
  context.output(0, std::move(y), context.type(0));
}

void pool(ShapeContext& context) {
  context.require_rank(0, 3);
  const Shape& x = context.shape(0);
  context.require(context.node().has_attribute("kernel_shape"), "the attribute 'kernel_shape' is missing");
  const Window window = window_of(context, {}, x.size() - 2);
  const bool round_up = context.node().integer("ceil_mode", 0) != 0;
  Shape y = {x[0], x[1]};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) y.push_back(slid(context, window, i, x[i + 2], round_up));
  context.output(1, y, DataType::int64);  // the positions of the maxima
  context.output(0, std::move(y), context.type(0));
}

void global_pool(ShapeContext& context) {
  context.require_rank(0, 3);
  const Shape& x = context.shape(0);
  Shape y(x.size(), 1);
  y[0] = x[0];
  y[1] = x[1];
  context.output(0, std::move(y), context.type(0));
}

void region_pool(ShapeContext& context) {
  context.require_rank(0, 4);
  context.require_rank(1, 2);
  const bool align = context.node().type == "RoiAlign";
  std::vector<std::int64_t> size = {context.small_integer("output_height", 1),
                                    context.small_integer("output_width", 1)};
  if (!align) size = context.small_integers("pooled_shape");
  require_size(context, size, 2, "pooled_shape");
  context.output(0, {context.shape(1)[0], context.shape(0)[1], size[0], size[1]}, context.type(0));
}

void max_unpool(ShapeContext& context) {
  context.require_rank(0, 3);
  const Shape& x = context.shape(0);
  if (context.has(2)) return context.output(0, context.contents(2), context.type(0));
  const Window window = window_of(context, {}, x.size() - 2);
  Shape y = {x[0], x[1]};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    context.require(x[i + 2] <= kLargestDimension / window.strides[i], "the output is too large");
    y.push_back((x[i + 2] - 1) * window.strides[i] + window.kernel[i] - window.pads_before[i] - window.pads_after[i]);
  }
  context.output(0, std::move(y), context.type(0));
}

void require_channels(const ShapeContext& context, std::size_t first, std::size_t last, std::int64_t channels) {
  for (std::size_t i = first; i < last; ++i) {
    if (context.has(i) && elements(context.shape(i)) != channels) {
      context.fail(fmt::format("input {} ({}) does not have one number for each of {} channels", i,
                               text_of(context.shape(i)), channels));
    }
  }
}

void batch_norm(ShapeContext& context) {
  context.require_rank(0, 1);
  const Shape& x = context.shape(0);
  const std::int64_t channels = x.size() > 1 ? x[1] : 1;
  require_channels(context, 1, 5, channels);
  context.output(0, x, context.type(0));
  for (std::size_t i = 1; i < context.output_count(); ++i) context.output(i, {channels}, context.type(0));
}

void channel_norm(ShapeContext& context) {
  context.require_rank(0, 2);
  // GroupNormalization has one scale per group in opset 18, and one per channel in opset 21.
  const std::int64_t channels = context.shape(0)[1], groups = context.small_integer("num_groups", 1);
  context.require(groups >= 1 && channels % groups == 0,
                  fmt::format("{} channels cannot be divided into {} groups", channels, groups));
  if (context.node().type == "InstanceNormalization") require_channels(context, 1, 3, channels);
  context.output(0, context.shape(0), context.type(0));
}

/// Normalizes over the axes from `axis` on. The optional further outputs are the means and reciprocal deviations.
void layer_norm(ShapeContext& context) {
  context.require_rank(0, 1);
  const Shape& x = context.shape(0);
  const std::size_t axis = context.axis(context.node().integer("axis", -1), x.size());
  for (std::size_t i = 1; i < 3; ++i) {
    if (context.has(i)) {
      context.require(broadcast(context, x, context.shape(i)) == x,
                      fmt::format("input {} is larger than the first", i));
    }
  }
  Shape statistics = x;
  for (std::size_t i = axis; i < x.size(); ++i) statistics[i] = 1;
  context.output(0, x, context.type(0));
  for (std::size_t i = 1; i < context.output_count(); ++i) context.output(i, statistics, DataType::float32);
}

std::int64_t scaled(const ShapeContext& context, std::int64_t extent, double scale) {
  const double size = std::floor(static_cast<double>(extent) * scale);
  context.require(std::isfinite(size) && size >= 0 && size <= static_cast<double>(kLargestDimension),
                  "a scale is out of range");
  return static_cast<std::int64_t>(size);
}

/// Resize of opset 10 and Upsample have inputs (X, scales), later versions of Resize (X, roi, scales, sizes).
void resize(ShapeContext& context) {
  const Shape& x = context.shape(0);
  std::vector<std::int64_t> sizes;
  std::vector<double> scales;
  const std::size_t at = context.input_count() == 2 ? 1 : 2;
  const auto attribute = context.node().attributes.find("scales");
  if (attribute != context.node().attributes.end()) {
    if (const auto* list = std::get_if<std::vector<double>>(&attribute->second)) scales = *list;
  } else if (context.has(3)) {
    sizes = context.contents(3);
  } else {
    context.require(context.has(at), "neither scales nor sizes are given");
    scales = context.value(at).reals;
    if (scales.empty()) context.unknown("it depends on scales that are not known before the run");
  }
  const std::size_t count = sizes.empty() ? scales.size() : sizes.size();
  std::vector<std::size_t> axes;
  if (context.node().has_attribute("axes"))
    axes = context.axes(context.node().integers("axes"), x.size());
  else
    for (std::size_t i = 0; i < x.size(); ++i) axes.push_back(i);
  context.require(count == axes.size(),
                  fmt::format("it has {} scales or sizes for {}", count, counted(axes.size(), "dimension")));
  Shape y = x;
  for (std::size_t i = 0; i < count; ++i)
    y[axes[i]] = sizes.empty() ? scaled(context, x[axes[i]], scales[i]) : sizes[i];
  context.output(0, std::move(y), context.type(0));
}

void grid_sample(ShapeContext& context) {
  context.require_rank(0, 3);
  context.require_rank(1, 3);
  const Shape& x = context.shape(0);
  const Shape& grid = context.shape(1);
  Shape y = {x[0], x[1]};
  y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
  context.output(0, std::move(y), context.type(0));
}

constexpr NamedRule kWindowRules[] = {
    {"AveragePool", pool},
    {"BatchNormalization", batch_norm, 2},
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution},
    {"GlobalAveragePool", global_pool},
    {"GlobalLpPool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"GridSample", grid_sample},
    {"GroupNormalization", channel_norm},
    {"InstanceNormalization", channel_norm, 2},
    {"LayerNormalization", layer_norm},
    {"LpPool", pool},
    {"MaxPool", pool},
    {"MaxRoiPool", region_pool},
    {"MaxUnpool", max_unpool},
    {"RMSNormalization", layer_norm},
    {"Resize", resize},
    {"RoiAlign", region_pool},
    {"SimplifiedLayerNormalization", layer_norm},
    {"Upsample", resize},
};

}  // namespace

std::span<const NamedRule> window_rules() { return kWindowRules; }

}  // namespace trainyard::detail
