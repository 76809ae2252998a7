#include "trainyard/rewrite/recipes/cuts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::detail {
namespace {

[[noreturn]] void refuse_node(const Node& node, const std::string& why, const char* help = kPredicted) {
  refuse("not-executed",
         fmt::format("executing '{}' ({}) in parts is not supported: {}", node.name.empty() ? node.type : node.name,
                     node.type, why),
         help);
}

std::int64_t total(const std::vector<std::int64_t>& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
}

std::int64_t product(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t all = 1;
  for (std::size_t i = begin; i < end; ++i) all *= shape[i];
  return all;
}

/// The cut of an array after a reshape. The dimensions of both shapes fall into groups with equal numbers of elements.
MaybeCut reshaped(const Shape& from, const Shape& to, const Cut& cut, std::size_t parts) {
  std::size_t i = 0, j = 0;
  while (i < from.size()) {
    std::size_t i_end = i + 1, j_end = j;
    std::int64_t a = from[i], b = 1;
    if (j_end < to.size()) b = to[j_end++];
    while (a != b) {
      if (a < b && i_end < from.size())
        a *= from[i_end++];
      else if (j_end < to.size())
        b *= to[j_end++];
      else
        return std::nullopt;
    }
    if (cut.dimension >= i_end) {
      i = i_end, j = j_end;
      continue;
    }
    // Blocks in elements of the group.
    std::vector<std::int64_t> flat;
    const std::int64_t repeated = product(from, i, cut.dimension), within = product(from, cut.dimension + 1, i_end);
    for (std::int64_t k = 0; k < repeated; ++k)
      for (const std::int64_t block : cut.blocks) flat.push_back(block * within);
    for (std::size_t d = j; d < j_end; ++d) {
      const auto count = static_cast<std::size_t>(product(to, j, d));
      const std::int64_t unit = product(to, d + 1, j_end);
      if (flat.size() % count != 0) continue;
      const std::size_t each = flat.size() / count;
      Cut made{.dimension = d, .blocks = {flat.begin(), flat.begin() + static_cast<std::ptrdiff_t>(each)}};
      bool fits = total(made.blocks) * static_cast<std::int64_t>(parts) == to[d] * unit;
      for (std::size_t k = 0; fits && k < flat.size(); ++k)
        fits = flat[k] == made.blocks[k % each] && flat[k] % unit == 0;
      if (!fits) continue;
      for (std::int64_t& block : made.blocks) block /= unit;
      return made;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

/// The cut of the blocks that make up [begin, end) of the whole dimension.
MaybeCut range_of(const Cut& cut, std::int64_t begin, std::int64_t end, std::size_t parts) {
  Cut made{.dimension = cut.dimension};
  std::int64_t at = 0;
  for (const std::int64_t block : cut.blocks) {
    const std::int64_t next = at + block * static_cast<std::int64_t>(parts);
    if (at >= begin && next <= end) made.blocks.push_back(block);
    at = next;
  }
  if (total(made.blocks) * static_cast<std::int64_t>(parts) != end - begin) return std::nullopt;
  return made;
}

std::vector<std::int64_t> permutation(const Node& node, std::size_t rank) {
  std::vector<std::int64_t> order = node.integers("perm");
  if (order.empty())
    for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  for (std::int64_t& axis : order) axis = static_cast<std::int64_t>(axis_at(axis, rank));
  return order;
}

MaybeCut after_output(const Model& model, const Node& node, std::size_t index, const Cut& cut, std::size_t parts) {
  const Shape& in = model.values[node.inputs[0]].shape;
  const Shape& out = model.values[node.outputs[index]].shape;
  if (node.type == "Transpose") {
    const auto order = permutation(node, in.size());
    const auto at = std::ranges::find(order, static_cast<std::int64_t>(cut.dimension));
    return Cut{static_cast<std::size_t>(at - order.begin()), cut.blocks};
  }
  if (node.type == "Split") {
    const std::size_t axis = axis_at(node.integer("axis", 0), in.size());
    if (axis != cut.dimension) return cut;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < index; ++i) begin += model.values[node.outputs[i]].shape[axis];
    return range_of(cut, begin, begin + out[axis], parts);
  }
  if (node.type == "Slice") {
    if (in[cut.dimension] == out[cut.dimension]) return cut;
    const auto starts = numbers_of(model, node, "starts", 1), steps = numbers_of(model, node, "steps", 4);
    const auto axes = numbers_of(model, node, "axes", 3);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::size_t axis = axes.empty() ? i : axis_at(axes[i], in.size());
      if (axis != cut.dimension || (!steps.empty() && steps[i] != 1)) continue;
      const std::int64_t start = starts[i] < 0 ? starts[i] + in[axis] : starts[i];
      return range_of(cut, start, start + out[axis], parts);
    }
    return std::nullopt;
  }
  if (node.type == "Gather") {
    const std::size_t axis = axis_at(node.integer("axis", 0), in.size());
    if (axis == cut.dimension) return std::nullopt;
    const std::size_t index_rank = out.size() + 1 - in.size();
    return Cut{cut.dimension < axis ? cut.dimension : cut.dimension + index_rank - 1, cut.blocks};
  }
  if (node.type == "Expand") {
    const std::size_t at = cut.dimension + out.size() - in.size();
    return in[cut.dimension] == out[at] ? MaybeCut{Cut{at, cut.blocks}} : std::nullopt;
  }
  return reshaped(in, out, cut, parts);
}

MaybeCut after_undo(const Model& model, const Node& node, const Cut& cut, std::size_t parts) {
  const Shape& in = model.values[node.inputs[0]].shape;
  if (node.type == "Transpose")
    return Cut{static_cast<std::size_t>(permutation(node, in.size())[cut.dimension]), cut.blocks};
  return reshaped(model.values[node.outputs[0]].shape, in, cut, parts);
}

MaybeCut after_part(const Model& model, const Node& node, std::size_t index, const Cut& cut, std::size_t parts) {
  const Shape& out = model.values[node.outputs[0]].shape;
  const std::size_t axis = axis_at(node.integer("axis", 0), out.size());
  if (axis != cut.dimension) return cut;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < index; ++i) begin += model.values[node.inputs[i]].shape[axis];
  return range_of(cut, begin, begin + model.values[node.inputs[index]].shape[axis], parts);
}

// --- nodes ---

/// Applies the rule of one operator to inputs that are cut.
class NodeRule {
 public:
  NodeRule(const Model& model, const Node& node, std::vector<MaybeCut> inputs, std::size_t parts, const MaybeCut& outer)
      : model_(model), node_(node), parts_(parts), outer_(outer) {
    made_.inputs = std::move(inputs);
    made_.inputs.resize(node.inputs.size());
    made_.outputs.resize(node.outputs.size());
    given_ = made_.inputs;
    used_.assign(given_.size(), false);
  }

  CutNode run() {
    if (any() || outer_) (this->*rule_of(node_.type))();
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (given_[i] && !used_[i]) refuse("its operands are divided differently");
    return std::move(made_);
  }

 private:
  using Rule = void (NodeRule::*)();

  /// The rule of a type. A "*" at either end of a pattern matches anything.
  static Rule rule_of(std::string_view type) {
    static constexpr std::pair<std::string_view, Rule> kRules[] = {
        {"Linear", &NodeRule::linear},
        {"Gemm", &NodeRule::gemm},
        {"MatMul", &NodeRule::matmul},
        {"Conv", &NodeRule::convolution},
        {"Attention*", &NodeRule::attention},
        {"Gather", &NodeRule::gather},
        {"Concat", &NodeRule::concat},
        {"BatchNormalization", &NodeRule::batch_norm},
        {"Expert*", &NodeRule::experts},
        {"CrossEntropy*", &NodeRule::divided_loss},
        {"LSTM GRU RNN", &NodeRule::recurrent},
        {"SoftmaxCrossEntropy* NegativeLogLikelihoodLoss", &NodeRule::loss},
        {"*Pool LRN Resize InstanceNormalization GroupNormalization", &NodeRule::images},
        {"*Softmax Hardmax *LayerNormalization RMSNormalization TopK ArgMax GatherElements", &NodeRule::rows},
        {"Reduce*", &NodeRule::reduction}};
    for (const auto& [names, rule] : kRules)
      for (std::string_view rest = names; !rest.empty();) {
        const std::string_view name = rest.substr(0, rest.find(' '));
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
        if (name.back() == '*'    ? type.starts_with(name.substr(0, name.size() - 1))
            : name.front() == '*' ? type.ends_with(name.substr(1))
                                  : type == name)
          return rule;
      }
    return &NodeRule::elementwise;
  }

  const Shape& shape(std::size_t input) const { return model_.values[node_.inputs[input]].shape; }
  const Shape& result(std::size_t output = 0) const { return model_.values[node_.outputs[output]].shape; }
  bool given(std::size_t input) const { return input < node_.inputs.size() && !node_.inputs[input].is_none(); }
  bool any() const {
    return std::ranges::any_of(made_.inputs, [](const MaybeCut& cut) { return cut.has_value(); });
  }
  MaybeCut& in(std::size_t i) { return made_.inputs[i]; }
  /// Notes that the result follows this operand.
  void use(std::size_t i) { used_[i] = true; }
  MaybeCut& out(std::size_t i = 0) { return made_.outputs[i]; }
  [[noreturn]] void refuse(const std::string& why) const { refuse_node(node_, why); }

  void need(std::size_t input, std::size_t dimension, const std::vector<std::int64_t>& blocks) {
    if (!given(input)) return;
    const Cut cut{dimension, blocks};
    if (in(input) && *in(input) != cut) refuse("its operands are divided differently");
    if (total(blocks) * static_cast<std::int64_t>(parts_) != shape(input)[dimension])
      refuse_node(node_,
                  fmt::format("dimension {} of {} cannot be divided equally among {}", dimension, text_of(shape(input)),
                              parts_),
                  kLargerBatch);
    in(input) = cut;
    use(input);
  }

  /// x times weights plus a bias. `x_inner` is the dimension of x that is summed over, `inner` and `outer` are those of
  /// the weights.
  void times_weights(std::size_t x_inner, std::size_t outer_of_result, std::size_t inner, std::size_t outer) {
    if (outer_) {
      if (in(0)) refuse("both its operand and its result are divided");
      need(1, outer, outer_->blocks);
      if (given(2)) need(2, shape(2).size() - 1, outer_->blocks);
      out() = Cut{outer_of_result, outer_->blocks};
    } else if (in(0) && in(0)->dimension == x_inner) {
      use(0);
      need(1, inner, in(0)->blocks);
      made_.partial = true;
    } else if (in(0)) {
      use(0);
      out() = in(0);
    }
  }
  void linear() { times_weights(shape(0).size() - 1, result().size() - 1, 0, 1); }
  void gemm() {
    const bool a = node_.integer("transA", 0) != 0, b = node_.integer("transB", 0) != 0;
    times_weights(a ? 0 : 1, 1, b ? 1 : 0, b ? 0 : 1);
    if (!outer_ && !made_.partial && in(0)) {
      out()->dimension = 0;
      if (given(2) && shape(2).size() == 2 && shape(2)[0] > 1) need(2, 0, in(0)->blocks);
    }
  }
  void convolution() {
    const bool grouped = node_.integer("group", 1) > 1;
    const auto part_of_groups = [&](const Cut& cut, const Shape& other) {  // each group alone
      if (cut.blocks.size() > 1 || node_.integer("group", 1) % static_cast<std::int64_t>(parts_) != 0)
        refuse("its groups cannot be divided equally");
      return std::vector<std::int64_t>{other[1] / static_cast<std::int64_t>(parts_)};
    };
    if (outer_) {
      if (grouped) need(0, 1, part_of_groups(*outer_, shape(0)));
      need(1, 0, outer_->blocks);
      if (given(2)) need(2, 0, outer_->blocks);
      out() = Cut{1, outer_->blocks};
    } else if (in(0) && in(0)->dimension == 1) {
      use(0);
      if (grouped) {
        const std::vector<std::int64_t> blocks = part_of_groups(*in(0), result());
        need(1, 0, blocks);
        if (given(2)) need(2, 0, blocks);
        out() = Cut{1, blocks};
      } else {
        need(1, 1, in(0)->blocks);
        made_.partial = true;
      }
    } else if (in(0)) {
      if (in(0)->dimension > 1) refuse("a convolution also reads the neighbours of each row");
      use(0);
      out() = in(0);
    }
  }
  void matmul() {
    const std::size_t a = shape(0).size(), b = shape(1).size(), r = result().size();
    if (outer_) {
      need(1, b - 1, outer_->blocks);
      out() = Cut{r - 1, outer_->blocks};
      return;
    }
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      if (!in(i)) continue;
      const std::size_t rank = i == 0 ? a : b, other = i == 0 ? b : a, at = in(i)->dimension;
      const auto blocks = in(i)->blocks;
      use(i);
      if (at + 2 < rank) {  // a batch dimension
        const std::size_t from_end = rank - at;
        if (other >= from_end && shape(1 - i)[other - from_end] > 1) need(1 - i, other - from_end, blocks);
        out() = Cut{r - from_end, blocks};
      } else if ((i == 0) == (at + 1 == rank)) {  // the dimension that is summed over
        need(1 - i, i == 0 ? b - std::min<std::size_t>(b, 2) : a - 1, blocks);
        made_.partial = true;
      } else {
        out() = Cut{i == 0 ? r - 2 : r - 1, blocks};
      }
      return;
    }
  }
  void attention() {
    const auto first = std::ranges::find_if(made_.inputs, [](const MaybeCut& cut) { return cut.has_value(); });
    if (first == made_.inputs.end()) return;
    const Cut cut = **first;
    const bool split = shape(0).size() == 4;
    if (cut.dimension > (split ? 1U : 0U)) refuse("attention reads all rows of the sequence");
    if (cut.blocks.size() > 1) refuse("its heads are not consecutive");
    const auto part = [&](std::int64_t extent) {
      if (extent % static_cast<std::int64_t>(parts_) != 0)
        refuse(fmt::format("{} heads cannot be divided equally among {} ranks", extent, parts_));
      return std::vector<std::int64_t>{extent / static_cast<std::int64_t>(parts_)};
    };
    for (std::size_t i = 0; i < 3; ++i) need(i, cut.dimension, part(shape(i)[cut.dimension]));
    if (given(3) && node_.type == "AttentionStep") need(3, cut.dimension, part(shape(3)[cut.dimension]));
    if (given(3) && node_.type == "Attention") {
      const Shape& mask = shape(3);
      const std::size_t from_end = shape(0).size() - cut.dimension;
      if (split && mask.size() >= from_end && mask[mask.size() - from_end] > 1)
        need(3, mask.size() - from_end, part(mask[mask.size() - from_end]));
    }
    out() = Cut{cut.dimension, part(result()[cut.dimension])};
  }
  void gather() {
    const std::size_t axis = axis_at(node_.integer("axis", 0), shape(0).size());
    if (in(1)) {
      use(1);
      out() = Cut{axis + in(1)->dimension, in(1)->blocks};
    } else if (in(0)) {
      if (in(0)->dimension == axis) refuse("it looks up rows of a table that is divided by row");
      use(0);
      out() = Cut{in(0)->dimension < axis ? in(0)->dimension : in(0)->dimension + shape(1).size() - 1, in(0)->blocks};
    }
  }
  void concat() {
    const std::size_t axis = axis_at(node_.integer("axis", 0), result().size());
    const auto first = std::ranges::find_if(made_.inputs, [](const MaybeCut& cut) { return cut.has_value(); });
    if (first == made_.inputs.end()) return;
    const Cut cut = **first;
    Cut all{axis, {}};
    for (std::size_t i = 0; i < made_.inputs.size(); ++i) {
      if (cut.dimension != axis) {
        need(i, cut.dimension, cut.blocks);
        continue;
      }
      if (!in(i)) in(i) = even_cut(shape(i), axis, parts_);
      if (!in(i) || in(i)->dimension != axis) refuse("its operands are divided differently");
      use(i);
      all.blocks.insert(all.blocks.end(), in(i)->blocks.begin(), in(i)->blocks.end());
    }
    out() = cut.dimension == axis ? all : cut;
  }
  void batch_norm() {
    if (!in(0)) return;
    use(0);
    if (in(0)->dimension == 1)
      for (std::size_t i = 1; i < node_.inputs.size(); ++i) need(i, 0, in(0)->blocks);
    out() = in(0);
    for (std::size_t i = 1; i < node_.outputs.size() && in(0)->dimension == 1; ++i)
      if (!node_.outputs[i].is_none()) out(i) = Cut{0, in(0)->blocks};
  }
  /// Rows are [experts, samples x capacity, ...]; slots and weights are [samples, tokens, chosen].
  void experts() {
    const auto cut_of_samples = [&]() -> MaybeCut {
      const std::int64_t capacity = node_.type == "ExpertCombine" ? rows_of_sample() : 1;
      for (std::size_t i = 0; i < made_.inputs.size(); ++i) {
        if (!in(i)) continue;
        const bool rows = node_.type == "ExpertCombine" && i == 0;
        if (in(i)->dimension != (rows ? 1U : 0U)) refuse("it reads all tokens of a sample and all experts");
        Cut samples{0, in(i)->blocks};
        for (std::int64_t& block : samples.blocks) block /= rows ? capacity : 1;
        return samples;
      }
      return std::nullopt;
    }();
    if (!cut_of_samples) return;
    const std::vector<std::int64_t>& blocks = cut_of_samples->blocks;
    for (std::size_t i = 0; i < made_.inputs.size(); ++i) {
      if (node_.type == "ExpertCombine" && i == 0) {
        std::vector<std::int64_t> rows = blocks;
        for (std::int64_t& row : rows) row *= rows_of_sample();
        need(0, 1, rows);
      } else {
        need(i, 0, blocks);
      }
    }
    if (node_.type != "ExpertDispatch") {
      out() = Cut{0, blocks};
      return;
    }
    std::vector<std::int64_t> rows = blocks;
    for (std::int64_t& row : rows) row *= result()[1] / shape(0)[0];
    out() = Cut{1, rows};
  }
  std::int64_t rows_of_sample() const { return shape(0)[1] / result()[0]; }
  void recurrent() {
    if (node_.integer("layout", 0) != 0) refuse("its layout is 1");
    if (!in(0)) return;
    if (in(0)->dimension != 1) refuse("each step of the sequence needs the one before");
    use(0);
    const auto blocks = in(0)->blocks;
    if (given(4)) need(4, 0, blocks);
    for (const std::size_t state : {std::size_t{5}, std::size_t{6}})
      if (given(state)) need(state, 1, blocks);
    for (std::size_t i = 0; i < node_.outputs.size(); ++i)
      if (!node_.outputs[i].is_none()) out(i) = Cut{i == 0 ? 2U : 1U, blocks};
  }

  /// Loss of ranks that share the classes. Rows, which come in parts, are cut as the samples are.
  void divided_loss() {
    if (!any()) return;
    if (node_.type == "CrossEntropyCombine") {
      for (std::size_t i = 0; i < made_.inputs.size(); ++i)
        if (in(i) == in(0)) use(i);
      out() = in(0);
      return;
    }
    const std::size_t classes = static_cast<std::size_t>(node_.integer("axis", 0));
    if (!in(0) || in(0)->dimension == classes) refuse("its classes are divided");
    Shape rows = shape(0);
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(classes));
    const std::size_t at = in(0)->dimension - (in(0)->dimension > classes ? 1 : 0);
    need(1, at, in(0)->blocks);
    use(0);
    for (std::size_t i = 2; i < made_.inputs.size(); ++i)
      if (in(i)) use(i);
    if (node_.type == "CrossEntropyWhole")
      made_.partial = true;
    else
      out() = reshaped(rows, {product(rows, 0, rows.size())}, Cut{at, in(0)->blocks}, parts_);
  }

  // --- element by element, or along dimensions that are not cut ---

  void loss() {
    if (!in(0)) refuse("its labels are divided, but its logits are not");
    const std::size_t rank = shape(0).size();
    const bool second = node_.type != "SoftmaxCrossEntropy" || rank == 4;
    const std::size_t classes = second ? std::min<std::size_t>(1, rank - 1) : rank - 1, at = in(0)->dimension;
    if (at == classes) refuse("its classes are divided");
    use(0);
    if (given(1)) need(1, at > classes ? at - 1 : at, in(0)->blocks);
    made_.partial = true;
  }
  void images() {
    const std::size_t most = node_.type.ends_with("Pool") || node_.type == "Resize" ? 1 : 0;
    if (!in(0) || in(0)->dimension > most) refuse("it reads several rows at once");
    use(0);
    for (std::size_t i = 0; i < made_.outputs.size(); ++i)
      if (!node_.outputs[i].is_none()) out(i) = in(0);
  }
  void rows() {
    const auto first = std::ranges::find_if(made_.inputs, [](const MaybeCut& cut) { return cut.has_value(); });
    const Cut cut = **first;
    const std::size_t rank = shape(0).size(), axis = axis_at(node_.integer("axis", -1), rank);
    const bool norm = node_.type.ends_with("Normalization");
    if (norm ? cut.dimension >= axis : cut.dimension == axis) refuse("it combines elements of different parts");
    if (norm && !in(0)) refuse("its parameters are divided, but its operand is not");
    if (node_.type == "GatherElements")
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) need(i, cut.dimension, cut.blocks);
    use(0);
    for (std::size_t i = 0; i < made_.outputs.size(); ++i)
      if (!node_.outputs[i].is_none()) out(i) = cut;
  }
  void reduction() {
    if (!in(0)) refuse("its axes are divided");
    use(0);
    std::vector<std::int64_t> axes = numbers_of(model_, node_, "axes", 1);
    const std::size_t rank = shape(0).size();
    std::size_t before = 0;  // removed dimensions before the cut one
    for (const std::int64_t axis : axes) {
      const std::size_t at = axis_at(axis, rank);
      if (at == in(0)->dimension) refuse("it adds up elements of different parts");
      before += at < in(0)->dimension ? 1U : 0U;
    }
    if (axes.empty()) refuse("it adds up elements of different parts");
    out() = Cut{in(0)->dimension - (node_.integer("keepdims", 1) != 0 ? 0 : before), in(0)->blocks};
  }
  void elementwise() {
    const std::size_t rank = result().size();
    const auto fits = [&](std::size_t i) {
      if (!given(i)) return true;
      const Shape& of = shape(i);
      if (of.size() > rank) return false;
      for (std::size_t d = 0; d < of.size(); ++d)
        if (of[d] != 1 && of[d] != result()[rank - of.size() + d]) return false;
      return true;
    };
    MaybeCut cut;  // of the result
    for (std::size_t i = 0; i < made_.inputs.size(); ++i) {
      if (!in(i)) continue;
      if (!fits(i)) refuse("its result for parts is not known");
      cut = Cut{rank - shape(i).size() + in(i)->dimension, in(i)->blocks};
      if (shape(i)[in(i)->dimension] != result()[cut->dimension]) refuse("the divided dimension is broadcast");
      break;
    }
    if (!cut) return;
    for (std::size_t i = 0; i < made_.inputs.size(); ++i) {
      if (!given(i) || !fits(i)) continue;
      const Shape& of = shape(i);
      if (rank - cut->dimension > of.size()) continue;
      const std::size_t at = cut->dimension + of.size() - rank;
      if (of[at] > 1) need(i, at, cut->blocks);
    }
    for (std::size_t i = 0; i < made_.outputs.size(); ++i)
      if (!node_.outputs[i].is_none() && result(i).size() == rank) out(i) = cut;
  }

  const Model& model_;
  const Node& node_;
  const std::size_t parts_;
  const MaybeCut& outer_;
  CutNode made_;
  std::vector<MaybeCut> given_;  // cuts of inputs, as given
  std::vector<bool> used_;       // which of these the rule has used
};

}  // namespace

MaybeCut even_cut(const Shape& shape, std::size_t dimension, std::size_t parts) {
  const auto n = static_cast<std::int64_t>(parts);
  if (dimension >= shape.size() || shape[dimension] % n != 0) return std::nullopt;
  return Cut{dimension, {shape[dimension] / n}};
}

Cut cut_after(const Model& model, const ViewStep& step, const Cut& cut, std::size_t parts) {
  const Node& node = model.nodes[step.node];
  const MaybeCut made = step.kind == ViewStep::Kind::output ? after_output(model, node, step.index, cut, parts)
                        : step.kind == ViewStep::Kind::undo ? after_undo(model, node, cut, parts)
                                                            : after_part(model, node, step.index, cut, parts);
  if (!made) refuse_node(node, "the view is not divided like the tensor that it shows");
  return *made;
}

CutNode cut_node(const Model& model, const Node& node, std::vector<MaybeCut> inputs, std::size_t parts,
                 const MaybeCut& outer) {
  return NodeRule{model, node, std::move(inputs), parts, outer}.run();
}

bool has_statistics_of_batch(const Model& model, const Node& node) {
  return node.type == "BatchNormalization" && uses_batch_statistics(model, node);
}

}  // namespace trainyard::detail
