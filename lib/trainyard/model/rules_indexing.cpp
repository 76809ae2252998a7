#include <fmt/format.h>

#include <algorithm>

#include "trainyard/model/shape_rules.hpp"

namespace trainyard::detail {

namespace {

/// The indexed dimension is replaced by all dimensions of the index.
void gather(ShapeContext& context) {
  context.require_rank(0, 1);
  const Shape& x = context.shape(0);
  const Shape& index = context.shape(1);
  const std::size_t axis = context.axis(context.node().integer("axis", 0), x.size());
  Shape y = x;
  const auto at = y.erase(y.begin() + static_cast<std::ptrdiff_t>(axis));
  y.insert(at, index.begin(), index.end());
  context.output(0, std::move(y), context.type(0));
}

void gather_elements(ShapeContext& context) {
  context.require(context.rank(0) == context.rank(1), "data and indices have different numbers of dimensions");
  context.output(0, context.shape(1), context.type(0));
}

void gather_nd(ShapeContext& context) {
  context.require_rank(0, 1);
  context.require_rank(1, 1);
  const Shape& x = context.shape(0);
  const Shape& index = context.shape(1);
  const std::int64_t batch = context.small_integer("batch_dims", 0);
  context.require(batch >= 0 && batch < static_cast<std::int64_t>(index.size()), "batch_dims is out of range");
  const auto used = batch + index.back();
  context.require(used <= static_cast<std::int64_t>(x.size()),
                  fmt::format("an index of {} numbers does not fit {}", index.back(), text_of(x)));
  Shape y(index.begin(), index.end() - 1);
  y.insert(y.end(), x.begin() + used, x.end());
  context.output(0, std::move(y), context.type(0));
}

void same_as_data(ShapeContext& context) { context.output(0, context.shape(0), context.type(0)); }

void one_hot(ShapeContext& context) {
  Shape y = context.shape(0);
  std::int64_t axis = context.node().integer("axis", -1);
  const auto rank = static_cast<std::int64_t>(y.size());
  context.require(axis >= -rank - 1 && axis <= rank, fmt::format("axis {} is outside {} dimensions", axis, rank + 1));
  if (axis < 0) axis += rank + 1;
  y.insert(y.begin() + axis, context.scalar(1));
  context.output(0, std::move(y), context.has(2) ? context.type(2) : DataType::float32);
}

/// k comes from the attribute (opset 1) or from the second input.
void top_k(ShapeContext& context) {
  context.require_rank(0, 1);
  Shape y = context.shape(0);
  const std::size_t axis = context.axis(context.node().integer("axis", -1), y.size());
  const std::int64_t k = context.node().has_attribute("k") ? context.node().integer("k", 0) : context.scalar(1);
  context.require(k >= 0 && k <= y[axis], fmt::format("it takes the {} largest of {}", k, y[axis]));
  y[axis] = k;
  context.output(1, y, DataType::int64);
  context.output(0, std::move(y), context.type(0));
}

// --- Mixtures of experts. Each token of B samples of S tokens goes to k of E experts; an expert takes at most C tokens
// of a sample. D. Lepikhin et al.: GShard. ICLR 2021, algorithm 1; W. Fedus et al.: Switch Transformers. JMLR 2022 ---

/// Experts chosen [B, S, k] -> slot of each choice in [E, B, C], or -1 if its expert is full. First choices are served
/// before second ones, earlier tokens before later ones.
void expert_slots(ShapeContext& context) {
  context.require(context.rank(0) == 3, "the choices do not have the shape [samples, tokens, choices]");
  context.output(0, context.shape(0), DataType::int64);
}

/// x [B, S, h], slots [B, S, k] -> [E, B C, h]: the tokens of each expert. Slots without a token are 0.
void expert_dispatch(ShapeContext& context) {
  const Shape& x = context.shape(0);
  const Shape& slots = context.shape(1);
  context.require(x.size() == 3 && slots.size() == 3 && x[0] == slots[0] && x[1] == slots[1],
                  fmt::format("the rows {} do not match the tokens {}", text_of(slots), text_of(x)));
  const std::int64_t experts = context.small_integer("experts", 1), capacity = context.small_integer("capacity", 1);
  context.require(experts >= 1 && capacity >= 1, "it needs at least one expert and a capacity of at least 1");
  context.require(capacity <= kLargestDimension / std::max<std::int64_t>(1, x[0]), "the capacity is too large");
  context.output(0, {experts, x[0] * capacity, x[2]}, context.type(0));
}

/// y [E, B C, h], weights and slots [B, S, k] -> [B, S, h]: the weighted sum of the outputs of each token's experts.
void expert_combine(ShapeContext& context) {
  const Shape& y = context.shape(0);
  const Shape& weights = context.shape(1);
  context.require(y.size() == 3, fmt::format("{} does not have the shape [experts, rows, features]", text_of(y)));
  context.require(weights.size() == 3 && weights == context.shape(2),
                  fmt::format("the weights {} do not fit the rows {}", text_of(weights), text_of(context.shape(2))));
  context.output(0, {weights[0], weights[1], y[2]}, context.type(0));
}

void depends_on_data(ShapeContext& context) { context.unknown("the size of its output depends on the data"); }

constexpr NamedRule kIndexingRules[] = {
    {"Compress", depends_on_data},
    {"ExpertCombine", expert_combine},
    {"ExpertDispatch", expert_dispatch},
    {"ExpertSlots", expert_slots},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"NonMaxSuppression", depends_on_data},
    {"NonZero", depends_on_data},
    {"OneHot", one_hot},
    {"Scatter", same_as_data},
    {"ScatterElements", same_as_data},
    {"ScatterND", same_as_data},
    {"TensorScatter", same_as_data},
    {"TopK", top_k},
    {"Unique", depends_on_data},
};

}  // namespace

std::span<const NamedRule> indexing_rules() { return kIndexingRules; }

}  // namespace trainyard::detail
