#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "trainyard/core/counted.hpp"
#include "trainyard/model/shape_rules.hpp"

namespace trainyard::detail {

namespace {

std::int64_t checked_product(const ShapeContext& context, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result > kMostElements) context.fail("the output is too large");
  return result;
}

/// In the new shape, 0 copies the input's dimension (unless allowzero is set), and -1 stands for the remaining
/// elements.
void reshape(ShapeContext& context) {
  const Shape& x = context.shape(0);
  std::vector<std::int64_t> wanted;
  context.require(context.numbers("shape", 1, wanted), "the new shape is missing");
  const bool literal_zero = context.node().integer("allowzero", 0) != 0;
  Shape y;
  std::size_t left_over = wanted.size();
  std::int64_t product = 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::int64_t extent = wanted[i];
    if (extent == 0 && !literal_zero) {
      context.require(i < x.size(), fmt::format("dimension {} of the new shape copies one that the input lacks", i));
      extent = x[i];
    } else if (extent == -1) {
      context.require(left_over == wanted.size(), "the new shape has -1 twice");
      left_over = i;
      extent = 1;
    }
    context.require(extent >= 0, fmt::format("the new shape contains {}", extent));
    product = checked_product(context, product, extent);
    y.push_back(extent);
  }
  const std::int64_t total = elements(x);
  if (left_over < wanted.size()) {
    context.require(product > 0 && total % product == 0,
                    fmt::format("{} does not divide into the new shape {}", text_of(x), text_of(wanted)));
    y[left_over] = total / product;
  } else {
    context.require(product == total, fmt::format("{} does not fit the new shape {}", text_of(x), text_of(wanted)));
  }
  context.output(0, std::move(y), context.type(0));
}

void flatten(ShapeContext& context) {
  const Shape& x = context.shape(0);
  const auto rank = static_cast<std::int64_t>(x.size());
  std::int64_t axis = context.node().integer("axis", 1);
  context.require(axis >= -rank && axis <= rank,
                  fmt::format("axis {} is outside an array of {}", axis, counted(rank, "dimension")));
  if (axis < 0) axis += rank;
  const auto middle = x.begin() + axis;
  context.output(0, {elements(Shape(x.begin(), middle)), elements(Shape(middle, x.end()))}, context.type(0));
}

void squeeze(ShapeContext& context) {
  const Shape& x = context.shape(0);
  std::vector<std::int64_t> given;
  std::vector<bool> gone(x.size(), false);
  if (context.numbers("axes", 1, given)) {
    for (const std::size_t axis : context.axes(given, x.size())) {
      context.require(x[axis] == 1, fmt::format("dimension {} of {} is not 1", axis, text_of(x)));
      gone[axis] = true;
    }
  } else {
    for (std::size_t i = 0; i < x.size(); ++i) gone[i] = x[i] == 1;
  }
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!gone[i]) y.push_back(x[i]);
  context.output(0, std::move(y), context.type(0));
}

void unsqueeze(ShapeContext& context) {
  const Shape& x = context.shape(0);
  std::vector<std::int64_t> given;
  context.require(context.numbers("axes", 1, given), "the axes are missing");
  const std::size_t rank = x.size() + given.size();
  std::vector<bool> added(rank, false);
  for (const std::size_t axis : context.axes(given, rank)) added[axis] = true;
  Shape y;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) y.push_back(added[i] ? 1 : x[next++]);
  context.output(0, std::move(y), context.type(0));
}

void transpose(ShapeContext& context) {
  const Shape& x = context.shape(0);
  std::vector<std::int64_t> order = context.node().integers("perm");
  if (!context.node().has_attribute("perm"))
    for (std::size_t i = x.size(); i > 0; --i) order.push_back(static_cast<std::int64_t>(i) - 1);
  context.require(order.size() == x.size(),
                  fmt::format("perm has {} for {}", counted(order.size(), "number"), counted(x.size(), "dimension")));
  Shape y;
  for (const std::size_t axis : context.axes(order, x.size())) y.push_back(x[axis]);
  context.output(0, std::move(y), context.type(0));
}

void expand(ShapeContext& context) {
  const Shape& x = context.shape(0);
  const auto& wanted = context.contents(1);
  context.output(0, broadcast(context, x, wanted), context.type(0));
}

void tile(ShapeContext& context) {
  const Shape& x = context.shape(0);
  const auto& repeats = context.contents(1);
  context.require(repeats.size() == x.size(),
                  fmt::format("it has {} for {}", counted(repeats.size(), "repeat"), counted(x.size(), "dimension")));
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    context.require(repeats[i] >= 0, "a number of repeats is negative");
    y.push_back(checked_product(context, x[i], repeats[i]));
  }
  context.output(0, std::move(y), context.type(0));
}

void concat(ShapeContext& context) {
  context.require_rank(0, 1);
  Shape y = context.shape(0);
  const std::size_t axis = context.axis(context.node().integer("axis", 1), y.size());
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    const Shape& next = context.shape(i);
    bool fits = next.size() == y.size();
    for (std::size_t d = 0; fits && d < y.size(); ++d) fits = d == axis || next[d] == y[d];
    if (!fits)
      context.fail(
          fmt::format("{} and {} cannot be joined along axis {}", text_of(context.shape(0)), text_of(next), axis));
    y[axis] += next[axis];
    context.require(y[axis] <= kLargestDimension, "the output is too large");
  }
  context.output(0, std::move(y), context.type(0));
}

/// Parts come from the attribute (to opset 11) or the second input (from opset 13). Without either they are equal,
/// except for a smaller last one.
void split(ShapeContext& context) {
  context.require_rank(0, 1);
  const Shape& x = context.shape(0);
  const std::size_t axis = context.axis(context.node().integer("axis", 0), x.size());
  const std::size_t count = context.output_count();
  context.require(count > 0, "it has no outputs");
  std::vector<std::int64_t> parts;
  if (!context.numbers("split", 1, parts)) {
    const auto divisor = static_cast<std::int64_t>(count);
    const std::int64_t each = x[axis] / divisor + (x[axis] % divisor > 0 ? 1 : 0);
    parts.assign(count, each);
    parts.back() = x[axis] - each * (divisor - 1);
  }
  context.require(parts.size() == count,
                  fmt::format("it has {} for {}", counted(parts.size(), "part"), counted(count, "output")));
  std::int64_t sum = 0;
  for (const std::int64_t part : parts) {
    context.require(part >= 0 && part <= kLargestDimension, fmt::format("a part has size {}", part));
    sum += part;
    context.require(sum <= kLargestDimension, "the parts are too large");
  }
  context.require(sum == x[axis], fmt::format("the parts add up to {}, but the dimension has {}", sum, x[axis]));
  const Shape whole = x;
  for (std::size_t i = 0; i < count; ++i) {
    Shape y = whole;
    y[axis] = parts[i];
    context.output(i, std::move(y), context.type(0));
  }
}

/// Length of the dimension after a slice. Ends beyond the array are clamped to it, as in Python.
std::int64_t sliced(const ShapeContext& context, std::int64_t extent, std::int64_t start, std::int64_t end,
                    std::int64_t step) {
  context.require(step != 0, "a step is 0");
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
  if (start < 0) start += extent;
  if (end < 0) end += extent;  // most negative numbers stay negative: extents are small
  start = std::clamp(start, step > 0 ? std::int64_t{0} : std::int64_t{-1}, high);
  end = std::clamp(end, low, step > 0 ? extent : extent - 1);
  const std::int64_t span = step > 0 ? end - start : start - end;
  if (span <= 0) return 0;
  if (step == std::numeric_limits<std::int64_t>::min()) return 1;
  const std::int64_t stride = step > 0 ? step : -step;
  return (span - 1) / stride + 1;
}

void slice(ShapeContext& context) {
  Shape y = context.shape(0);
  std::vector<std::int64_t> starts, ends, steps, given;
  context.require(context.numbers("starts", 1, starts) && context.numbers("ends", 2, ends),
                  "starts or ends are missing");
  std::vector<std::size_t> axes;
  if (context.numbers("axes", 3, given))
    axes = context.axes(given, y.size());
  else
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(i);
  if (context.has(4)) steps = context.contents(4);
  if (steps.empty()) steps.assign(starts.size(), 1);
  context.require(starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size() &&
                      starts.size() <= y.size(),
                  "starts, ends, axes and steps differ in length");
  for (std::size_t i = 0; i < axes.size(); ++i) y[axes[i]] = sliced(context, y[axes[i]], starts[i], ends[i], steps[i]);
  context.output(0, std::move(y), context.type(0));
}

void pad(ShapeContext& context) {
  Shape y = context.shape(0);
  std::vector<std::int64_t> pads;
  if (context.node().has_attribute("paddings"))
    pads = context.node().integers("paddings");
  else
    context.require(context.numbers("pads", 1, pads), "the pads are missing");
  std::vector<std::size_t> axes;
  if (context.has(3))
    axes = context.axes(context.contents(3), y.size());
  else
    for (std::size_t i = 0; i < y.size(); ++i) axes.push_back(i);
  context.require(pads.size() == 2 * axes.size(),
                  fmt::format("it has {}, but needs {}", counted(pads.size(), "pad"), 2 * axes.size()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (const std::int64_t more : {pads[i], pads[i + axes.size()]}) {
      context.require(more >= -kLargestDimension && more <= kLargestDimension, "a pad is too large");
      y[axes[i]] += more;
    }
  }
  context.output(0, std::move(y), context.type(0));
}

void depth_to_space(ShapeContext& context) {
  const Shape& x = context.shape(0);
  const std::int64_t block = context.small_integer("blocksize", 0);
  context.require(x.size() == 4, "it needs an array of 4 dimensions");
  context.require(block >= 1 && block <= 1 << 15, "blocksize is out of range");
  const bool spread = context.node().type == "DepthToSpace";
  const std::int64_t square = block * block;
  if (spread) {
    context.require(x[1] % square == 0, fmt::format("{} channels are not divisible by {}", x[1], square));
    context.output(0,
                   {x[0], x[1] / square, checked_product(context, x[2], block), checked_product(context, x[3], block)},
                   context.type(0));
  } else {
    context.require(x[2] % block == 0 && x[3] % block == 0,
                    fmt::format("{} cannot be divided into blocks of {}", text_of(x), block));
    context.output(0, {x[0], checked_product(context, x[1], square), x[2] / block, x[3] / block}, context.type(0));
  }
}

constexpr NamedRule kLayoutRules[] = {
    {"Concat", concat},
    {"DepthToSpace", depth_to_space},
    {"Expand", expand},
    {"Flatten", flatten},
    {"Pad", pad},
    {"Reshape", reshape},
    {"Slice", slice},
    {"SpaceToDepth", depth_to_space},
    {"Split", split},
    {"Squeeze", squeeze},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const NamedRule> layout_rules() { return kLayoutRules; }

}  // namespace trainyard::detail
