#include "trainyard/model/shape_rules.hpp"

namespace trainyard::detail {

namespace {

Shape reduced(const ShapeContext& context, const std::vector<std::size_t>& axes, bool keep) {
  const Shape& x = context.shape(0);
  std::vector<bool> gone(x.size(), false);
  for (const std::size_t axis : axes) gone[axis] = true;
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!gone[i]) y.push_back(x[i]);
    if (gone[i] && keep) y.push_back(1);
  }
  return y;
}

/// Axes come from the attribute (ReduceSum to opset 11, others to 17) or from the second input. Without axes all are
/// reduced; with noop_with_empty_axes none is.
void reduce(ShapeContext& context) {
  const std::size_t rank = context.rank(0);
  const bool keep = context.node().integer("keepdims", 1) != 0;
  std::vector<std::int64_t> given;
  context.numbers("axes", 1, given);
  std::vector<std::size_t> axes = context.axes(given, rank);
  if (given.empty() && context.node().integer("noop_with_empty_axes", 0) == 0)
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(i);
  context.output(0, reduced(context, axes, keep), context.type(0));
}

void position_of_extreme(ShapeContext& context) {
  context.require_rank(0, 1);
  const std::size_t axis = context.axis(context.node().integer("axis", 0), context.rank(0));
  const bool keep = context.node().integer("keepdims", 1) != 0;
  context.output(0, reduced(context, {axis}, keep), DataType::int64);
}

constexpr NamedRule kReductionRules[] = {
    {"ArgMax", position_of_extreme},
    {"ArgMin", position_of_extreme},
    {"ReduceL1", reduce},
    {"ReduceL2", reduce},
    {"ReduceLogSum", reduce},
    {"ReduceLogSumExp", reduce},
    {"ReduceMax", reduce},
    {"ReduceMean", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"ReduceSum", reduce},
    {"ReduceSumSquare", reduce},
};

}  // namespace

std::span<const NamedRule> reduction_rules() { return kReductionRules; }

}  // namespace trainyard::detail
