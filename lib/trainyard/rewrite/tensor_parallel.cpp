#include "trainyard/rewrite/tensor_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_copy.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

using Layout = RankLayout;
using Way = RankWay;

constexpr std::int64_t kTable = 8192;  // rows: smaller ones, as of positions, are whole
constexpr std::int64_t kPadded = 512;  // extent a rank, from which padding is small

/// Ops that compute a feature from the same features of their operands.
constexpr std::array<std::string_view, 34> kByFeature{
    "Abs",     "Add",  "AddGrad", "AveragePool", "Cast",  "Clip",  "Concat",  "Div",  "Dropout",
    "Erf",     "Exp",  "Gelu",    "Identity",    "Log",   "Max",   "Mean",    "Min",  "Mul",
    "MaxPool", "Neg",  "Pad",     "Pow",         "Relu",  "Relu6", "Sigmoid", "Silu", "Slice",
    "Split",   "Sqrt", "Sub",     "SumToShape",  "Swish", "Tanh",  "Where"};

bool by_feature(std::string_view type) {
  return type == "GlobalAveragePool" || type == "LeakyRelu" || std::ranges::find(kByFeature, type) != kByFeature.end();
}
/// Gradients of what Split and slices have taken apart.
bool puts_together(std::string_view type) { return type == "Concat" || type == "SliceGrad"; }
bool normalizes(std::string_view type) { return type.ends_with("LayerNormalization") || type == "RMSNormalization"; }
bool adds(std::string_view type) { return type == "Add" || type == "AddGrad" || type == "Sum"; }

/// A signature, "Type(float32[2,3])->float32[2]", with extents that can be changed.
struct Shapes {
  struct Tensor {
    std::string type;
    std::vector<std::int64_t> extents;

    bool of_numbers() const { return type.starts_with("float") || type.starts_with("bfloat") || type == "bool"; }
    /// The dimension of features: the second of four or more, else the last.
    std::size_t feature() const { return extents.size() >= 4 ? 1 : extents.size() - 1; }
    std::int64_t features() const { return extents.empty() ? 1 : extents[feature()]; }
    double count() const {
      double product = 1;
      for (const std::int64_t extent : extents) product *= static_cast<double>(extent);
      return product;
    }
    /// The dimension of the sequence, of two or three: the last but one.
    std::size_t row() const { return extents.size() - 2; }
    bool has_rows() const { return extents.size() == 2 || extents.size() == 3; }
  };
  std::string head;
  std::vector<Tensor> reads, writes;

  static std::optional<Shapes> parse(std::string_view text) {
    Shapes shapes;
    const std::size_t open = text.find('('), middle = text.find(")->");
    if (open == std::string_view::npos || middle == std::string_view::npos || middle < open) return std::nullopt;
    shapes.head = text.substr(0, open);
    if (!parse(text.substr(open + 1, middle - open - 1), shapes.reads) ||
        !parse(text.substr(middle + 3), shapes.writes))
      return std::nullopt;
    return shapes;
  }

  std::string text() const { return fmt::format("{}({})->{}", head, text(reads), text(writes)); }

 private:
  static bool parse(std::string_view text, std::vector<Tensor>& tensors) {
    while (!text.empty()) {
      if (text.front() == ',') text.remove_prefix(1);
      const std::size_t open = text.find('['), close = text.find(']');
      if (open == std::string_view::npos || close == std::string_view::npos || close < open) return false;
      Tensor tensor{.type = std::string{text.substr(0, open)}};
      for (const char* at = text.data() + open + 1; at < text.data() + close; ++at) {
        std::int64_t extent = 0;
        const auto [end, error] = std::from_chars(at, text.data() + close, extent);
        if (error != std::errc{} || extent < 0) return false;
        tensor.extents.push_back(extent);
        at = end;
      }
      tensors.push_back(std::move(tensor));
      text.remove_prefix(close + 1);
    }
    return true;
  }
  static std::string text(const std::vector<Tensor>& tensors) {
    std::string all;
    for (const Tensor& tensor : tensors)
      all += fmt::format("{}{}[{}]", all.empty() ? "" : ",", tensor.type, fmt::join(tensor.extents, ","));
    return all;
  }
};

/// What each op computes and each tensor is, of t ranks.
class Sharding {
 public:
  Sharding(const Graph& graph, std::size_t ranks, bool sequence)
      : graph_(graph),
        ranks_(static_cast<std::int64_t>(ranks)),
        sequence_(sequence),
        use_(graph),
        way_(graph.op_count(), Way::whole),
        layout_(graph.tensor_count(), Layout::whole),
        shapes_(graph.op_count()),
        base_(graph.op_count(), OpId::none()),
        fixed_(graph.op_count(), false) {
    const OpIndex index{graph};
    for (const OpId op : graph.topological_order()) {
      shapes_[op] = Shapes::parse(graph.signature(op));
      fixed_[op] =
          graph.type(op) != "Input" && graph.phase(op) == Phase::forward &&
          std::ranges::all_of(graph.inputs(op), [&](TensorId tensor) { return bool{fixed_[graph.producer(tensor)]}; });
      if (graph.phase(op) == Phase::backward) {
        const std::string_view name = graph.name(op);
        if (const auto found = index.find(name.substr(0, name.rfind("/grad")));
            found && name.rfind("/grad") != std::string_view::npos && graph.phase(*found) == Phase::forward)
          base_[op] = *found;
      }
      decide(op);
    }
  }

  Way way(OpId op) const { return way_[op]; }
  Layout layout(TensorId tensor) const { return layout_[tensor]; }
  bool is_divided(OpId op) const { return way_[op] != Way::whole; }
  bool shares_rows(OpId op) const { return way_[op] == Way::rows; }
  bool is_loss(OpId op) const { return graph_.type(op) == "SoftmaxCrossEntropy" && way_[op] == Way::share; }
  const std::optional<Shapes>& shapes(OpId op) const { return shapes_[op]; }
  const IdMap<OpId, Way>& ways() const { return way_; }
  const IdMap<TensorId, Layout>& layouts() const { return layout_; }

  /// What the op takes of an input.
  Layout taken(OpId op, TensorId tensor) const {
    const Layout is = layout_[tensor];
    const bool first = !graph_.inputs(op).empty() && graph_.inputs(op).front() == tensor;
    const bool backward = graph_.phase(op) == Phase::backward;
    if (is == Layout::rows) return way_[op] == Way::rows ? Layout::rows : Layout::whole;
    const Layout share = is == Layout::whole ? Layout::whole : Layout::share;
    switch (way_[op]) {
      case Way::column:
        return backward && first ? share : Layout::whole;
      case Way::row:
        return backward && first ? Layout::whole : share;
      case Way::share:
        return is_read_by_several(op, tensor) ? Layout::whole : share;
      case Way::rows:
        return is == Layout::partial ? Layout::rows : Layout::whole;
      case Way::vocabulary:
        return Layout::whole;
      case Way::whole:
        break;
    }
    return is == Layout::partial && sums_partial(op) ? Layout::partial : Layout::whole;
  }

  /// Keys or values of a head that several ranks have.
  bool is_read_by_several(OpId op, TensorId tensor) const {
    const OpId of = grouped(op);
    if (of.is_none()) return false;
    const auto operands = graph_.inputs(of);
    return std::ranges::find(operands.subspan(1), tensor) != operands.end();
  }

  /// It adds partial terms, or gradients of which some are partial and none a share.
  bool sums_partial(OpId op) const {
    const auto is = [&](Layout layout) { return [this, layout](TensorId t) { return layout_[t] == layout; }; };
    return way_[op] == Way::whole && adds(graph_.type(op)) &&
           std::ranges::any_of(graph_.inputs(op), is(Layout::partial)) &&
           std::ranges::none_of(graph_.inputs(op), is(Layout::share)) &&
           std::ranges::none_of(graph_.inputs(op), is(Layout::rows)) &&
           (graph_.phase(op) == Phase::backward || std::ranges::none_of(graph_.inputs(op), is(Layout::whole)));
  }

  /// The op's signature on a rank.
  std::string signature(OpId op) const {
    if (!is_divided(op) || !shapes_[op]) return graph_.signature(op);
    Shapes shapes = *shapes_[op];
    if (way_[op] == Way::column || way_[op] == Way::row)
      divide_product(op, shapes);
    else if (way_[op] == Way::vocabulary)
      divide((graph_.phase(op) == Phase::forward ? shapes.reads : shapes.writes).front(), 0);
    else if (way_[op] == Way::rows)
      for (auto* side : {&shapes.reads, &shapes.writes})
        for (Shapes::Tensor& tensor : *side) divide_rows(tensor);
    else
      for (auto* side : {&shapes.reads, &shapes.writes})
        for (Shapes::Tensor& tensor : *side) {
          if (!tensor.of_numbers() || tensor.extents.empty() || divides_group(op, tensor)) continue;
          const std::size_t at = divides(tensor.features()) ? tensor.feature() : 0;
          if (divides(tensor.extents[at]) && (at > 0 || tensor.extents.size() == 1 || way_of_update(op)))
            divide(tensor, at);
        }
    return shapes.text();
  }

  /// Share of the op's parameters and state that a rank holds.
  double held(OpId op) const {
    const double t = static_cast<double>(ranks_);
    if (!is_divided(op) || way_[op] == Way::rows) return 1;
    if (way_[op] != Way::row || !shapes_[op] || shapes_[op]->reads.size() < 3) return 1 / t;
    const double weights = shapes_[op]->reads[1].count(), bias = shapes_[op]->reads[2].count();
    return (weights / t + bias) / (weights + bias);
  }

 private:
  bool divides(std::int64_t extent) const { return extent > 0 && (extent % ranks_ == 0 || extent >= kPadded * ranks_); }
  void divide(Shapes::Tensor& tensor, std::size_t dimension) const {
    if (dimension < tensor.extents.size())
      tensor.extents[dimension] = (tensor.extents[dimension] + ranks_ - 1) / ranks_;
  }
  void divide_rows(Shapes::Tensor& tensor) const {
    if (tensor.has_rows() && tensor.extents[tensor.row()] % ranks_ == 0) divide(tensor, tensor.row());
  }
  bool way_of_update(OpId op) const { return graph_.phase(op) == Phase::update; }

  /// Leaves of fewer heads than ranks one: of keys and values all of it, else a part of its rows, which are those of
  /// the queries that share it.
  bool divides_group(OpId op, Shapes::Tensor& tensor) const {
    if (tensor.extents.size() != 4 || tensor.extents[1] % ranks_ == 0) return false;
    const OpId of = grouped(op);
    const std::int64_t heads = tensor.extents[1], each = heads > 0 && ranks_ % heads == 0 ? ranks_ / heads : 0;
    const bool rows = of.is_none() || is_of_queries(of, tensor);
    if (each == 0 || (rows && tensor.extents[2] % each != 0) || (of.is_none() && heads == 1)) return false;
    tensor.extents[1] = 1;
    if (rows) tensor.extents[2] /= each;
    return true;
  }

  // --- ways ---

  void decide(OpId op) {
    const Phase phase = graph_.phase(op);
    if (phase == Phase::update) {
      if (updates_share(op)) way_[op] = Way::share;
    } else if (phase == Phase::backward && !base_[op].is_none()) {
      way_[op] = way_[base_[op]];
    } else if (shapes_[op] && !graph_.inputs(op).empty()) {
      way_[op] = forward_way(op, *shapes_[op]);
    }
    const auto outputs = graph_.outputs(op);
    std::size_t number = 0;
    for (const TensorId tensor : outputs) layout_[tensor] = made(op, tensor, number++, outputs.size());
  }

  /// An update of a share's gradients; a sum over tied copies (tie_copies) of which those that are made here are
  /// shares.
  bool updates_share(OpId op) const {
    const auto inputs = graph_.inputs(op);
    const auto is_share = [&](TensorId tensor) { return layout_[tensor] == Layout::share; };
    return graph_.type(op) != kBoundaryType && std::any_of(inputs.begin(), inputs.end(), is_share) &&
           (graph_.type(op) != "AddGrad" || std::all_of(inputs.begin(), inputs.end(), [&](TensorId tensor) {
              return is_share(tensor) || graph_.phase(graph_.producer(tensor)) == Phase::update;
            }));
  }

  Way forward_way(OpId op, const Shapes& shapes) const {
    const std::string& type = graph_.type(op);
    const auto inputs = graph_.inputs(op);
    const Layout first = layout_[inputs.front()];
    if (shapes.reads.empty() || shapes.writes.empty()) return Way::whole;
    if (routes(op)) return Way::whole;
    const bool product =
        is_product_of_experts(op, shapes) || type == "Linear" || type == "Gemm" ||
        (type == "MatMul" && shapes.reads.size() > 1 && shapes.reads[1].extents.size() == 2 && inputs.size() == 1);
    if (product || type == "Conv") {
      if (shapes.reads.size() < 2 || shapes.reads[1].extents.size() < 2) return Way::whole;
      const std::int64_t inner = shapes.reads[0].features(), outer = shapes.writes[0].features();
      if (type == "Conv" && shapes.reads[1].extents[1] != inner) {
        const std::int64_t groups = inner / std::max<std::int64_t>(1, shapes.reads[1].extents[1]);
        return first == Layout::share && groups % ranks_ == 0 && outer % ranks_ == 0 ? Way::share : Way::whole;
      }
      if (first == Layout::share && divides(inner)) return Way::row;
      return divides(outer) ? Way::column : Way::whole;
    }
    if (type == "Gather")
      return (holds_parameters(graph_, op) || use_.in_group[op]) && !shapes.reads[0].extents.empty() &&
                     shapes.reads[0].extents[0] >= kTable && divides(shapes.reads[0].extents[0])
                 ? Way::vocabulary
                 : Way::whole;
    if (type == "MatMul" || type == "Softmax" || type == "Attention") {  // of heads
      const bool by_head = std::ranges::all_of(shapes.reads, [&](const Shapes::Tensor& read) {
        return read.extents.size() == 4 && read.extents[1] % ranks_ == 0;
      });
      // What an attention adds to its scores, behind queries, keys and values, may be whole.
      const auto operands = inputs.first(std::min<std::size_t>(inputs.size(), 3));
      return (by_head &&
              std::ranges::all_of(operands, [&](TensorId each) { return layout_[each] == Layout::share; })) ||
                     shares_queries(op, shapes)
                 ? Way::share
                 : Way::whole;
    }
    if (type == "SoftmaxCrossEntropy" || type == "BatchNormalization")
      return first == Layout::share ? Way::share : Way::whole;
    if (puts_together(type) ? all_shares(op, 0) : by_feature(type) && all_shares(op, 0.5)) return Way::share;
    return sequence_ && (by_feature(type) || normalizes(type)) && all_rows(op, shapes) ? Way::rows : Way::whole;
  }

  /// A product of queries, or of weights of values, that ranks have shares of, with keys or values of fewer heads than
  /// there are ranks: these are gathered, and each is read by several ranks.
  bool shares_queries(OpId op, const Shapes& shapes) const {
    const auto inputs = graph_.inputs(op);
    const auto& reads = shapes.reads;
    const auto is_of_heads = [](const Shapes::Tensor& read) { return read.extents.size() == 4 && read.extents[1] > 0; };
    if (graph_.type(op) == "Softmax" || inputs.size() != reads.size() || reads.size() < 2 || reads.size() > 3 ||
        !std::ranges::all_of(reads, is_of_heads) || layout_[inputs.front()] != Layout::share)
      return false;
    const std::int64_t heads = graph_.type(op) == "Attention" ? reads[0].extents[1] : heads_of(op);
    return ranks_ % reads[1].extents[1] == 0 && heads > 0 && heads % ranks_ == 0 &&
           std::ranges::all_of(
               inputs, [&](TensorId each) { return layout_[each] == Layout::share || layout_[each] == Layout::whole; });
  }
  /// Heads of the softmax before a product of its weights with values, or behind one of queries with keys; 0: none.
  std::int64_t heads_of(OpId op) const {
    const auto passes = [&](OpId at) { return by_feature(graph_.type(at)) && !graph_.inputs(at).empty(); };
    const auto heads = [&](OpId at) -> std::int64_t {
      const auto found = graph_.type(at) == "Softmax" ? Shapes::parse(graph_.signature(at)) : std::nullopt;
      return found && !found->reads.empty() && found->reads[0].extents.size() == 4 ? found->reads[0].extents[1] : 0;
    };
    OpId at = graph_.producer(graph_.inputs(op).front());
    while (passes(at)) at = graph_.producer(graph_.inputs(at).front());
    if (const std::int64_t before = heads(at); before > 0) return before;
    for (at = op;;) {
      const auto outputs = graph_.outputs(at);
      if (outputs.empty() || graph_.consumers(*outputs.begin()).empty()) return 0;
      at = graph_.consumers(*outputs.begin()).front();
      if (!passes(at)) return heads(at);
    }
  }
  /// The forward op, where the op is one of shares_queries, or its gradient.
  OpId grouped(OpId op) const {
    const OpId of = graph_.phase(op) == Phase::backward ? base_[op] : op;
    const bool is = way_[op] == Way::share && !of.is_none() &&
                    (graph_.type(of) == "MatMul" || graph_.type(of) == "Attention") && shapes_[of]->reads.size() > 1 &&
                    shapes_[of]->reads[1].extents[1] % ranks_ != 0;
    return is ? of : OpId::none();
  }
  /// Whether a tensor of a grouped op is of the queries' heads, rather than of those of keys and values.
  bool is_of_queries(OpId grouped, const Shapes::Tensor& tensor) const {
    const auto& queries = shapes_[grouped]->reads.front().extents;
    return tensor.extents.size() == 4 && tensor.extents[1] == queries[1] && tensor.extents[2] == queries[2];
  }

  /// [experts, rows, inner] times weights [experts, inner, outer].
  bool is_product_of_experts(OpId op, const Shapes& shapes) const {
    return graph_.type(op) == "MatMul" && graph_.inputs(op).size() == 1 && holds_parameters(graph_, op) &&
           shapes.reads.size() == 2 && shapes.reads[0].extents.size() == 3 && shapes.reads[1].extents.size() == 3;
  }

  /// The router of a mixture of experts: what chooses the largest of a few numbers a token is not divided.
  bool routes(OpId op) const {
    for (const TensorId tensor : graph_.outputs(op))
      for (const OpId reader : graph_.consumers(tensor)) {
        const std::string& type = graph_.type(reader);
        if (graph_.phase(reader) != Phase::forward) continue;
        if (type == "TopK" || ((type == "Softmax" || type == "Sigmoid") && routes(reader)) ||
            (type == "Add" && holds_parameters(graph_, reader) && routes(reader)))
          return true;
      }
    return false;
  }

  /// The largest inputs are rows, or can be at no cost: of partial terms and a whole tensor a rank takes its own. Sums
  /// of terms alone are left to what comes after.
  bool all_rows(OpId op, const Shapes& shapes) const {
    if (!shapes.writes.front().has_rows() || sums_partial(op)) return false;
    const Shapes::Tensor& made = shapes.writes.front();
    if (made.extents[made.row()] % ranks_ != 0) return false;
    Bytes largest{0};
    bool rows = false;
    for (const TensorId tensor : graph_.inputs(op)) {
      largest = std::max(largest, graph_.bytes(tensor));
      rows = rows || layout_[tensor] == Layout::rows || layout_[tensor] == Layout::partial;
    }
    return rows && std::ranges::none_of(graph_.inputs(op), [&](TensorId tensor) {
             return layout_[tensor] == Layout::share && 2 * graph_.bytes(tensor) >= largest;
           });
  }

  /// Inputs of at least this part of the largest are shares: smaller ones are broadcast. What is made of parameters
  /// alone, as a bias of scores, counts only where it is a share: of what is whole a rank reads its own.
  bool all_shares(OpId op, double part) const {
    std::vector<TensorId> counted;
    Bytes largest{0};
    for (const TensorId tensor : graph_.inputs(op)) {
      if (layout_[tensor] != Layout::share && fixed_[graph_.producer(tensor)]) continue;
      counted.push_back(tensor);
      largest = std::max(largest, graph_.bytes(tensor));
    }
    return !counted.empty() && std::ranges::all_of(counted, [&](TensorId tensor) {
      return layout_[tensor] == Layout::share ||
             static_cast<double>(graph_.bytes(tensor).count) < part * static_cast<double>(largest.count);
    });
  }

  Layout made(OpId op, TensorId tensor, std::size_t number, std::size_t outputs) const {
    const bool backward = graph_.phase(op) == Phase::backward;
    switch (way_[op]) {
      case Way::whole:
        return !graph_.inputs(op).empty() && sums_partial(op) ? Layout::partial : Layout::whole;
      case Way::share:
        if (const OpId of = grouped(op); backward && !of.is_none() && shapes_[op] &&
                                         number < shapes_[op]->writes.size() &&
                                         !is_of_queries(of, shapes_[op]->writes[number]))
          return Layout::partial;
        return is_loss(op) && number == 0 ? Layout::whole : Layout::share;
      case Way::rows:
        return backward && use_.is_gradient[tensor] ? Layout::partial : Layout::rows;
      case Way::column:
        return backward && !use_.is_gradient[tensor] ? Layout::partial : Layout::share;
      case Way::row: {
        if (!backward) return Layout::partial;
        const bool bias =
            shapes_[op] && shapes_[op]->writes.size() == outputs && shapes_[op]->writes[number].extents.size() == 1;
        return bias ? Layout::whole : Layout::share;
      }
      case Way::vocabulary:
        return backward ? Layout::share : Layout::partial;
    }
    return Layout::whole;
  }

  // --- signatures of products ---

  void divide_product(OpId op, Shapes& shapes) const {
    const bool column = way_[op] == Way::column, forward = graph_.phase(op) == Phase::forward;
    const std::string_view type = graph_.type(op);
    Shapes::Tensor *x = nullptr, *w = nullptr, *y = nullptr, *b = nullptr;
    auto& reads = shapes.reads;
    auto& writes = shapes.writes;
    if (forward) {
      x = &reads[0], w = &reads[1], y = &writes[0];
      if (reads.size() > 2) b = &reads[2];
    } else {
      y = &reads[0];
      const bool data_alone = type.ends_with("GradX") || type.ends_with("GradA");
      const bool both = !data_alone && reads.size() > 2;
      std::size_t next = 0;
      if (data_alone || both) {
        if (reads.size() > 1) w = &reads[1];
        x = &writes[next++];
        if (both) divide_operands(column, nullptr, &reads[2]);
      } else if (reads.size() > 1) {
        x = &reads[1];
      }
      if (next < writes.size() && writes[next].extents.size() > 1) {
        if (w)
          divide_weights(column, y->features(), type, writes[next]);
        else
          w = &writes[next];
        ++next;
      }
      if (next < writes.size() && writes[next].extents.size() == 1) b = &writes[next];
    }
    const std::int64_t outer = y->features();
    if (w) divide_weights(column, outer, type, *w);
    divide_operands(column, y, x);
    if (column && b) divide(*b, 0);
  }
  /// A column has a share of y, a row of x.
  void divide_operands(bool column, Shapes::Tensor* y, Shapes::Tensor* x) const {
    Shapes::Tensor* shared = column ? y : x;
    if (shared && !shared->extents.empty()) divide(*shared, shared->feature());
  }
  /// Weights are [inner, outer] in Linear and MatMul, of each expert where there are several; [outer, inner] elsewhere.
  void divide_weights(bool column, std::int64_t outer, std::string_view type, Shapes::Tensor& w) const {
    const bool inner_first = type.starts_with("Linear") || type.starts_with("MatMul") || w.extents[0] != outer;
    const std::size_t experts = type.starts_with("MatMul") && w.extents.size() == 3 ? 1 : 0;  // dimensions before them
    divide(w, experts + (column == inner_first ? 1 : 0));
  }

  const Graph& graph_;
  const std::int64_t ranks_;
  const bool sequence_;
  const ParameterUse use_;
  IdMap<OpId, Way> way_;
  IdMap<TensorId, Layout> layout_;
  IdMap<OpId, std::optional<Shapes>> shapes_;
  IdMap<OpId, OpId> base_;   // of a backward op: the forward op
  IdMap<OpId, bool> fixed_;  // a forward op that reads no input of the network
};

class Ranks {
 public:
  /// `made`: the first ones; unless these are all, collectives are one op each.
  Ranks(const Graph& graph, const TensorParallel& parallel, std::size_t made)
      : graph_(graph),
        n_(parallel.ranks),
        made_(made),
        whole_(parallel.collective == Collective::whole && (parallel.fold > 0 || made == parallel.ranks)),
        fold_(parallel.fold),
        sharding_(graph, parallel.ranks, parallel.sequence) {}

  TensorParallelGraph run() {
    for (const OpId op : graph_.ops())
      for (const TensorId tensor : graph_.inputs(op)) {
        const Layout taken = sharding_.taken(op, tensor);
        if (taken == sharding_.layout(tensor)) continue;
        if (is_term(tensor)) {
          std::vector<TensorId>& terms = terms_[graph_.layer(graph_.producer(tensor))];
          if (std::ranges::find(terms, tensor) == terms.end()) terms.push_back(tensor);
          continue;
        }
        const auto [at, added] =
            wanted_.try_emplace({tensor, taken, gathers_again(op, tensor)}, Want{graph_.phase(op), op});
        if (!added) at->second.phase = std::min(at->second.phase, graph_.phase(op));
      }
    for (const OpId op : graph_.ops()) {
      for (const TensorId tensor : graph_.inputs(op)) {
        if (is_term(tensor)) add_terms(std::exchange(terms_[graph_.layer(graph_.producer(tensor))], {}));
        if (const auto found = wanted_.find({tensor, Layout::whole, true});
            found != wanted_.end() && found->second.by == op)
          convert(graph_.producer(tensor), tensor, Layout::whole, found->second, true);
      }
      for (std::size_t rank = 0; rank < made_; ++rank) add_copy(op, rank);
      if (sharding_.is_loss(op)) add_loss(op);
      for (const TensorId tensor : graph_.outputs(op))
        for (const Layout layout : {Layout::whole, Layout::share, Layout::rows})
          if (const auto found = wanted_.find({tensor, layout, false}); found != wanted_.end())
            convert(op, tensor, layout, found->second, false);
    }
    result_.ranks = n_;
    result_.way = sharding_.ways();
    result_.layout = sharding_.layouts();
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  /// The first op that takes a tensor in another layout, and the earliest phase of those that do.
  struct Want {
    Phase phase;
    OpId by;
  };

  /// The rows of a forward op are gathered for the backward pass a second time, rather than kept whole for it.
  bool gathers_again(OpId op, TensorId tensor) const {
    return sharding_.layout(tensor) == Layout::rows && graph_.phase(op) != Phase::forward &&
           graph_.phase(graph_.producer(tensor)) == Phase::forward;
  }

  /// A gradient of parameters that ranks hold whole, of which each has computed a part of the sum.
  bool is_term(TensorId tensor) const {
    return sharding_.layout(tensor) == Layout::partial &&
           std::ranges::all_of(graph_.consumers(tensor),
                               [&](OpId reader) { return graph_.phase(reader) == Phase::update; });
  }

  std::string converted(TensorId tensor, Layout layout, bool again, std::size_t rank) const {
    const char* word = layout == Layout::whole ? "whole" : layout == Layout::rows ? "rows" : "share";
    return rank_name(fmt::format("{}/{}{}", graph_.name(tensor), word, again ? "#2" : ""), rank);
  }

  static bool is_part(Layout layout) { return layout == Layout::share || layout == Layout::rows; }
  Bytes bytes_of(TensorId tensor, Layout layout, std::size_t rank) const {
    const Bytes whole = graph_.bytes(tensor);
    return is_part(layout) ? Bytes{share_of(whole.count, rank, n_)} : whole;
  }

  void add_copy(OpId op, std::size_t rank) {
    OpView& view = copy_.start(op);
    const std::string suffix = rank_name("", rank);
    copy_.append(view.name, suffix);
    view.inputs.clear();
    for (const TensorId tensor : graph_.inputs(op)) {
      const Layout taken = sharding_.taken(op, tensor);
      if (rank > 0 && taken == Layout::whole && sharding_.sums_partial(op)) continue;  // one rank adds it
      if (taken == sharding_.layout(tensor))
        copy_.append(view.inputs.emplace_back(graph_.name(tensor)), suffix);
      else
        view.inputs.push_back(copy_.lend(converted(tensor, taken, gathers_again(op, tensor), rank)));
    }
    if (sharding_.is_loss(op)) {
      view.outputs = {{copy_.lend(rank_name(rows_of(op), rank)), row_bytes(op)}};
    } else {
      std::size_t number = 0;
      for (const TensorId tensor : graph_.outputs(op)) {
        OpView::Output& output = view.outputs[number++];
        copy_.append(output.name, suffix);
        output.bytes = bytes_of(tensor, sharding_.layout(tensor), rank);
      }
    }
    for (std::string_view& earlier : view.after) copy_.append(earlier, suffix);
    if (!view.colocate.empty()) copy_.append(view.colocate, suffix);
    if (sharding_.is_divided(op)) take_share(view, op, rank);
    builder_.add_view(view);
    added(rank, op);
  }

  void take_share(OpView& view, OpId op, std::size_t rank) {
    const auto part = [&](auto whole) { return decltype(whole){share_of(whole.count, rank, n_)}; };
    view.flops.value /= static_cast<double>(n_);
    view.workspace_bytes = part(view.workspace_bytes);
    for (OpView::Time& given : view.times) given.time = part(given.time);
    Bytes undivided{0};
    if (sharding_.way(op) != Way::share) {
      for (const TensorId tensor : graph_.inputs(op))
        if (sharding_.taken(op, tensor) == Layout::whole && !reads_share(op, tensor)) undivided += graph_.bytes(tensor);
      for (const TensorId tensor : graph_.outputs(op))
        if (!is_part(sharding_.layout(tensor))) undivided += graph_.bytes(tensor);
    }
    undivided = std::min(undivided, view.bytes_accessed);
    view.bytes_accessed = undivided + part(view.bytes_accessed - undivided);
    const double held = sharding_.held(op);
    const auto resident = [&](Bytes whole) {
      if (held * static_cast<double>(n_) == 1) return part(whole);
      return Bytes{static_cast<std::int64_t>(held * static_cast<double>(whole.count) + 0.5)};
    };
    view.parameter_bytes = resident(view.parameter_bytes);
    view.state_bytes = resident(view.state_bytes);
    view.signature = copy_.lend(sharding_.signature(op));
  }
  /// A whole tensor of which the rank's product reads its share alone.
  bool reads_share(OpId op, TensorId tensor) const {
    const bool first = graph_.inputs(op).front() == tensor, backward = graph_.phase(op) == Phase::backward;
    return sharding_.way(op) == Way::rows || (sharding_.way(op) == Way::column && backward && first) ||
           (sharding_.way(op) == Way::row && !(backward && first));
  }

  void add(const OpSpec& spec, std::size_t rank, OpId original) {
    builder_.add(spec);
    added(rank, original);
  }
  void added(std::size_t rank, OpId original) {
    result_.rank.push_back(rank);
    result_.original.push_back(original);
  }
  void add(const CollectiveOps& collective, OpId made_by) {
    result_.collectives.back().first = result_.original.size();
    result_.collectives.back().count = collective.ops().size();
    for (std::size_t i = 0; i < collective.ops().size(); ++i)
      add(collective.ops()[i], collective.op_ranks()[i], made_by);
  }
  /// `group`: that the ops of each rank are colocated in; empty: none.
  CollectiveOps collective(OpId op, const std::string& array, CollectiveKind kind, Bytes bytes, Phase phase,
                           const std::string& group = "") {
    result_.collectives.push_back({.kind = kind, .bytes = bytes, .made_by = op, .phase = phase});
    const OpSpec maker = spec_of(graph_, op);
    const OpSpec each{.phase = phase, .layer = maker.layer, .device_kinds = maker.device_kinds, .times = maker.times};
    std::vector<OpSpec> ranks(whole_ ? made_ : n_, each);
    for (std::size_t rank = 0; !group.empty() && rank < ranks.size(); ++rank)
      ranks[rank].colocate = rank_name(group, rank);
    return {fmt::format("{}/{}", array, name_of(kind)), std::move(ranks)};
  }
  CollectiveTask task(CollectiveKind kind, Bytes bytes) const {
    return {kind, bytes, n_ / made_, std::max<std::size_t>(fold_, 1)};
  }
  /// The sums of the arrays that ranks have, in parts; as one task of tensors `name`.
  std::vector<ArrayParts> sums(CollectiveOps& ops, const std::vector<std::vector<std::string>>& own,
                               const std::string& name, Bytes bytes) const {
    std::vector<ArrayParts> parts;
    if (whole_) {
      std::vector<OutputSpec> outputs;
      for (std::size_t rank = 0; rank < made_; ++rank) outputs.push_back({rank_name(name, rank), bytes});
      ops.whole(task(CollectiveKind::all_reduce, bytes), own, outputs);
      for (const OutputSpec& output : outputs) parts.push_back({{output.name, bytes}});
      return parts;
    }
    if (made_ == n_) return ops.all_reduce(Collective::ring, own, bytes);
    for (const auto& arrays : own) {
      parts.emplace_back();
      for (const std::string& array : arrays) parts.back().push_back({array, bytes});
    }
    return parts;
  }

  /// Adds up the terms of a layer's gradients, which updates take whole.
  void add_terms(const std::vector<TensorId>& terms) {
    if (terms.empty()) return;
    const OpId op = graph_.producer(terms.front());
    const std::string name = fmt::format("{}/sum", graph_.name(terms.front()));
    Bytes bytes{0};
    for (const TensorId term : terms) bytes += graph_.bytes(term);
    CollectiveOps ops =
        collective(op, std::string{graph_.name(terms.front())}, CollectiveKind::all_reduce, bytes, Phase::update, name);
    result_.collectives.back().terms = terms;
    std::vector<std::vector<std::string>> own(made_);
    std::vector<std::vector<OutputSpec>> made(made_);
    for (std::size_t rank = 0; rank < made_; ++rank)
      for (const TensorId term : terms) {
        own[rank].push_back(rank_name(graph_.name(term), rank));
        made[rank].push_back({converted(term, Layout::whole, false, rank), graph_.bytes(term)});
      }
    const std::vector<ArrayParts> parts = sums(ops, own, name, bytes);
    for (std::size_t rank = 0; rank < made_; ++rank) ops.join(rank, "scatter", parts[rank], std::move(made[rank]));
    add(ops, op);
  }

  void convert(OpId op, TensorId tensor, Layout to, Want want, bool again) {
    using Kind = CollectiveKind;
    const Layout from = sharding_.layout(tensor);
    const Kind kind = is_part(from) ? Kind::all_gather : is_part(to) ? Kind::reduce_scatter : Kind::all_reduce;
    const std::string name{graph_.name(tensor)};
    const Bytes whole = graph_.bytes(tensor);
    CollectiveOps ops = collective(op, again ? name + "#2" : name, kind, whole, want.phase);
    result_.collectives.back().tensor = tensor;
    result_.collectives.back().to = to;
    std::vector<std::size_t> members;
    std::vector<std::vector<std::string>> own;
    for (std::size_t rank = 0; rank < made_; ++rank) {
      members.push_back(rank);
      own.push_back({again ? wait_for_gradient(ops, tensor, want.by, rank) : rank_name(name, rank)});
    }
    const auto made = [&](std::size_t rank) {
      return std::vector<OutputSpec>{{converted(tensor, to, again, rank), bytes_of(tensor, to, rank)}};
    };
    if (whole_) {
      std::vector<OutputSpec> outputs;
      for (std::size_t rank = 0; rank < made_; ++rank) outputs.push_back(made(rank).front());
      ops.whole(task(kind, whole), own, outputs);
      return add(ops, op);
    }
    if (made_ < n_) {
      for (std::size_t rank = 0; rank < made_; ++rank)
        ops.join(rank, "whole", {{own[rank].front(), whole}}, made(rank));
      return add(ops, op);
    }
    if (kind == Kind::all_reduce) {
      const auto sums = ops.all_reduce(Collective::ring, own, whole);
      for (std::size_t rank = 0; rank < n_; ++rank) ops.join(rank, "sum", sums[rank], made(rank));
    } else if (kind == Kind::all_gather) {
      ArrayParts shares;
      for (std::size_t rank = 0; rank < n_; ++rank) shares.push_back({own[rank].front(), bytes_of(tensor, from, rank)});
      const auto all = ops.all_gather("step", members, shares);
      for (std::size_t rank = 0; rank < n_; ++rank) ops.join(rank, "whole", all[rank], made(rank));
    } else {
      std::vector<ArrayParts> parts;
      for (std::size_t rank = 0; rank < n_; ++rank) parts.push_back(ops.divide(rank, "parts", own[rank], whole, n_));
      const ArrayParts sums = ops.reduce_scatter("step", members, parts);
      for (std::size_t rank = 0; rank < n_; ++rank) ops.join(rank, "share", {sums[rank]}, made(rank));
    }
    add(ops, op);
  }

  /// The rank's rows, once there are the gradients that the op takes with them.
  std::string wait_for_gradient(CollectiveOps& ops, TensorId tensor, OpId by, std::size_t rank) const {
    OpSpec& relay = ops.relay(rank, "wait");
    relay.inputs = {rank_name(graph_.name(tensor), rank)};
    relay.outputs = {{relay.name, bytes_of(tensor, Layout::rows, rank)}};
    for (const TensorId other : graph_.inputs(by))
      if (const OpId maker = graph_.producer(other); graph_.phase(maker) == Phase::backward)
        relay.after.push_back(rank_name(graph_.name(maker), rank));
    return relay.name;
  }

  // --- cross entropy over a shared vocabulary: the largest logit, the sum and the label's logit of each row ---

  std::string rows_of(OpId op) const { return fmt::format("{}/rows", graph_.name(op)); }
  Bytes row_bytes(OpId op) const {
    std::string_view signature = graph_.signature(op);  // whose extents are those of the whole op
    const auto& logits = sharding_.shapes(op)->reads.front();
    const double rows = logits.count() / static_cast<double>(logits.features());
    return Bytes{std::llround(3 * 4 * rows * detail::take_share_of(signature))};
  }
  void add_loss(OpId op) {
    CollectiveOps ops = collective(op, rows_of(op), CollectiveKind::all_reduce, row_bytes(op), graph_.phase(op));
    std::vector<std::vector<std::string>> rows;
    for (std::size_t rank = 0; rank < made_; ++rank) rows.push_back({rank_name(rows_of(op), rank)});
    const std::vector<ArrayParts> parts = sums(ops, rows, rows_of(op) + "/sum", row_bytes(op));
    for (std::size_t rank = 0; rank < made_; ++rank) {
      std::vector<OutputSpec> outputs;
      for (const TensorId tensor : graph_.outputs(op))
        outputs.push_back({rank_name(graph_.name(tensor), rank), bytes_of(tensor, sharding_.layout(tensor), rank),
                           graph_.kept(tensor)});
      ops.join(rank, "sum", parts[rank], std::move(outputs));
    }
    add(ops, op);
  }

  const Graph& graph_;
  const std::size_t n_, made_;
  const bool whole_;  // collectives are tasks
  const std::size_t fold_;
  const Sharding sharding_;
  std::map<std::tuple<TensorId, Layout, bool>, Want> wanted_;  // true: again
  std::map<std::string_view, std::vector<TensorId>> terms_;    // to be added up, by layer
  TensorParallelGraph result_;
  GraphBuilder builder_{graph_.name()};
  OpCopy copy_{graph_};
};

}  // namespace

std::string rank_name(std::string_view name, std::size_t rank) { return copy_name(name, kRankMark, rank); }

std::size_t tensor_rank(std::string_view name) {
  const std::size_t mark = name.rfind(kRankMark);
  std::size_t rank = 0;
  if (mark == std::string_view::npos) return 0;
  const auto [end, error] = std::from_chars(name.data() + mark + 1, name.data() + name.size(), rank);
  return error == std::errc{} && rank > 0 ? rank - 1 : 0;
}

TensorParallelGraph tensor_parallel(const Graph& graph, const TensorParallel& parallel) {
  if (parallel.ranks > 1) return Ranks{graph, parallel, parallel.fold > 0 ? 1 : parallel.ranks}.run();
  TensorParallelGraph same{.graph = graph, .rank = IdMap<OpId, std::size_t>(graph.op_count(), 0)};
  for (const OpId op : graph.ops()) same.original.push_back(op);
  return same;
}

TensorParallelGraph first_tensor_rank(const Graph& graph, const TensorParallel& parallel) {
  return parallel.ranks > 1
             ? Ranks{graph, TensorParallel{.ranks = parallel.ranks, .sequence = parallel.sequence}, 1}.run()
             : tensor_parallel(graph, parallel);
}

HeadsShared heads_shared(const Graph& graph, const TensorParallel& parallel) {
  HeadsShared found;
  const Sharding sharding{graph, parallel.ranks, parallel.sequence};
  for (const OpId op : graph.ops()) {
    const auto& shapes = sharding.shapes(op);
    if (graph.phase(op) != Phase::forward || (graph.type(op) != "MatMul" && graph.type(op) != "Attention") ||
        graph.inputs(op).size() < 2 || !shapes || shapes->reads.empty() || shapes->reads.front().extents.size() != 4)
      continue;
    found.any = true;
    if (parallel.ranks == 1 || sharding.is_divided(op)) continue;
    found.whole = op;
    break;
  }
  return found;
}

bool shares_parameters(const Graph& graph, const TensorParallel& parallel) {
  const Sharding sharding{graph, parallel.ranks, parallel.sequence};
  const auto ops = graph.ops();
  return parallel.ranks > 1 && std::any_of(ops.begin(), ops.end(), [&](OpId op) {
           return sharding.is_divided(op) && graph.parameter_bytes(op).count > 0;
         });
}

bool shares_sequence(const Graph& graph, const TensorParallel& parallel) {
  const Sharding sharding{graph, parallel.ranks, parallel.sequence};
  const auto ops = graph.ops();
  return parallel.ranks > 1 && std::any_of(ops.begin(), ops.end(), [&](OpId op) {
           return graph.phase(op) == Phase::forward && sharding.shares_rows(op);
         });
}

}  // namespace trainyard
