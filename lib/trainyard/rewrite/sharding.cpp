#include "trainyard/rewrite/sharding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/training/optimizer.hpp"

namespace trainyard::detail {
namespace {

constexpr std::int64_t kTable = 8192;  // rows of a table; smaller ones, as of positions, are whole
constexpr std::int64_t kPadded = 512;  // extent per rank from which on padding is small

/// Ops that compute each feature from the same feature of their operands.
constexpr std::array<std::string_view, 34> kByFeature{
    "Abs",     "Add",  "AddGrad", "AveragePool", "Cast",  "Clip",  "Concat",  "Div",  "Dropout",
    "Erf",     "Exp",  "Gelu",    "Identity",    "Log",   "Max",   "Mean",    "Min",  "Mul",
    "MaxPool", "Neg",  "Pad",     "Pow",         "Relu",  "Relu6", "Sigmoid", "Silu", "Slice",
    "Split",   "Sqrt", "Sub",     "SumToShape",  "Swish", "Tanh",  "Where"};

bool by_feature(std::string_view type) {
  return type == "GlobalAveragePool" || type == "LeakyRelu" || std::ranges::find(kByFeature, type) != kByFeature.end();
}
/// Ops that join gradients of the parts that Split and Slice have made.
bool puts_together(std::string_view type) { return type == "Concat" || type == "SliceGrad"; }
bool normalizes(std::string_view type) { return type.ends_with("LayerNormalization") || type == "RMSNormalization"; }
bool adds(std::string_view type) {
  return type == "Add" || type == "AddGrad" || type == "Sum" || type == kAddSquaresType;
}

bool parse_tensors(std::string_view text, std::vector<OpShapes::Tensor>& tensors) {
  while (!text.empty()) {
    if (text.front() == ',') text.remove_prefix(1);
    const std::size_t open = text.find('['), close = text.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return false;
    OpShapes::Tensor tensor{.type = std::string{text.substr(0, open)}};
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

std::string tensors_text(const std::vector<OpShapes::Tensor>& tensors) {
  std::string all;
  for (const OpShapes::Tensor& tensor : tensors)
    all += fmt::format("{}{}[{}]", all.empty() ? "" : ",", tensor.type, fmt::join(tensor.extents, ","));
  return all;
}

}  // namespace

std::optional<OpShapes> OpShapes::parse(std::string_view text) {
  OpShapes shapes;
  const std::size_t open = text.find('('), middle = text.find(")->");
  if (open == std::string_view::npos || middle == std::string_view::npos || middle < open) return std::nullopt;
  shapes.head = text.substr(0, open);
  if (!parse_tensors(text.substr(open + 1, middle - open - 1), shapes.reads) ||
      !parse_tensors(text.substr(middle + 3), shapes.writes))
    return std::nullopt;
  return shapes;
}

std::string OpShapes::text() const {
  return fmt::format("{}({})->{}", head, tensors_text(reads), tensors_text(writes));
}

Sharding::Sharding(const Graph& graph, std::size_t ranks, bool sequence)
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
    shapes_[op] = OpShapes::parse(graph.signature(op));
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

RankLayout Sharding::taken(OpId op, TensorId tensor) const {
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

bool Sharding::is_read_by_several(OpId op, TensorId tensor) const {
  const OpId of = grouped(op);
  if (of.is_none()) return false;
  const auto operands = graph_.inputs(of);
  return std::ranges::find(operands.subspan(1), tensor) != operands.end();
}

bool Sharding::sums_partial(OpId op) const {
  const auto is = [&](Layout layout) { return [this, layout](TensorId t) { return layout_[t] == layout; }; };
  return way_[op] == Way::whole && adds(graph_.type(op)) &&
         std::ranges::any_of(graph_.inputs(op), is(Layout::partial)) &&
         std::ranges::none_of(graph_.inputs(op), is(Layout::share)) &&
         std::ranges::none_of(graph_.inputs(op), is(Layout::rows)) &&
         (graph_.phase(op) != Phase::forward || std::ranges::none_of(graph_.inputs(op), is(Layout::whole)));
}

std::string Sharding::signature(OpId op) const {
  if (!is_divided(op) || !shapes_[op]) return graph_.signature(op);
  OpShapes shapes = *shapes_[op];
  if (way_[op] == Way::column || way_[op] == Way::row)
    divide_product(op, shapes);
  else if (way_[op] == Way::vocabulary)
    divide((graph_.phase(op) == Phase::forward ? shapes.reads : shapes.writes).front(), 0);
  else if (way_[op] == Way::rows)
    for (auto* side : {&shapes.reads, &shapes.writes})
      for (OpShapes::Tensor& tensor : *side) divide_rows(tensor);
  else
    for (auto* side : {&shapes.reads, &shapes.writes})
      for (std::size_t i = 0; i < side->size(); ++i) {
        OpShapes::Tensor& tensor = (*side)[i];
        const bool of_queries = is_of_queries(op, tensor, side == &shapes.writes, i);
        if (!tensor.of_numbers() || tensor.extents.empty() || divides_group(op, tensor, of_queries)) continue;
        const std::size_t at = divides(tensor.features()) ? tensor.feature() : 0;
        if (divides(tensor.extents[at]) && (at > 0 || tensor.extents.size() == 1 || is_update(op))) divide(tensor, at);
      }
  return shapes.text();
}

double Sharding::held(OpId op) const {
  const double t = static_cast<double>(ranks_);
  if (!is_divided(op) || way_[op] == Way::rows) return 1;
  if (way_[op] != Way::row || !shapes_[op] || shapes_[op]->reads.size() < 3) return 1 / t;
  const double weights = shapes_[op]->reads[1].count(), bias = shapes_[op]->reads[2].count();
  return (weights / t + bias) / (weights + bias);
}

bool Sharding::divides(std::int64_t extent) const {
  return extent > 0 && (extent % ranks_ == 0 || extent >= kPadded * ranks_);
}

void Sharding::divide(OpShapes::Tensor& tensor, std::size_t dimension) const {
  if (dimension < tensor.extents.size()) tensor.extents[dimension] = (tensor.extents[dimension] + ranks_ - 1) / ranks_;
}

void Sharding::divide_rows(OpShapes::Tensor& tensor) const {
  if (tensor.has_rows() && tensor.extents[tensor.row()] % ranks_ == 0) divide(tensor, tensor.row());
}

bool Sharding::divides_group(OpId op, OpShapes::Tensor& tensor, bool of_queries) const {
  if (tensor.extents.size() != 4 || tensor.extents[1] % ranks_ == 0) return false;
  const std::int64_t heads = tensor.extents[1], each = heads > 0 && ranks_ % heads == 0 ? ranks_ / heads : 0;
  if (each == 0 || (of_queries && tensor.extents[2] % each != 0) || (grouped(op).is_none() && heads == 1)) return false;
  tensor.extents[1] = 1;
  if (of_queries) tensor.extents[2] /= each;
  return true;
}

void Sharding::decide(OpId op) {
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

bool Sharding::updates_share(OpId op) const {
  const auto inputs = graph_.inputs(op);
  const auto is_share = [&](TensorId tensor) { return layout_[tensor] == Layout::share; };
  return graph_.type(op) != kBoundaryType && std::any_of(inputs.begin(), inputs.end(), is_share) &&
         (graph_.type(op) != "AddGrad" || std::all_of(inputs.begin(), inputs.end(), [&](TensorId tensor) {
            return is_share(tensor) || graph_.phase(graph_.producer(tensor)) == Phase::update;
          }));
}

RankWay Sharding::forward_way(OpId op, const OpShapes& shapes) const {
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
  if (type == "MatMul" || type == "Softmax" || type == "Attention") {  // operands by heads
    const bool by_head = std::ranges::all_of(shapes.reads, [&](const OpShapes::Tensor& read) {
      return read.extents.size() == 4 && read.extents[1] % ranks_ == 0;
    });
    // Further inputs of an attention, which it adds to its scores, may be whole.
    const auto operands = inputs.first(std::min<std::size_t>(inputs.size(), 3));
    return (by_head && std::ranges::all_of(operands, [&](TensorId each) { return layout_[each] == Layout::share; })) ||
                   shares_queries(op, shapes)
               ? Way::share
               : Way::whole;
  }
  if (type == "SoftmaxCrossEntropy" || type == "BatchNormalization")
    return first == Layout::share ? Way::share : Way::whole;
  if (puts_together(type) ? all_shares(op, 0) : by_feature(type) && all_shares(op, 0.5)) return Way::share;
  return sequence_ && (by_feature(type) || normalizes(type)) && all_rows(op, shapes) ? Way::rows : Way::whole;
}

bool Sharding::shares_queries(OpId op, const OpShapes& shapes) const {
  const auto inputs = graph_.inputs(op);
  const auto& reads = shapes.reads;
  const auto is_of_heads = [](const OpShapes::Tensor& read) { return read.extents.size() == 4 && read.extents[1] > 0; };
  if (graph_.type(op) == "Softmax" || inputs.size() != reads.size() || reads.size() < 2 || reads.size() > 3 ||
      !std::ranges::all_of(reads, is_of_heads) || layout_[inputs.front()] != Layout::share)
    return false;
  const std::int64_t heads = graph_.type(op) == "Attention" ? reads[0].extents[1] : heads_of(op);
  return ranks_ % reads[1].extents[1] == 0 && heads > 0 && heads % ranks_ == 0 &&
         std::ranges::all_of(
             inputs, [&](TensorId each) { return layout_[each] == Layout::share || layout_[each] == Layout::whole; });
}

std::int64_t Sharding::heads_of(OpId op) const {
  const auto passes = [&](OpId at) { return by_feature(graph_.type(at)) && !graph_.inputs(at).empty(); };
  const auto heads = [&](OpId at) -> std::int64_t {
    const auto found = graph_.type(at) == "Softmax" ? OpShapes::parse(graph_.signature(at)) : std::nullopt;
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

OpId Sharding::grouped(OpId op) const {
  const OpId of = graph_.phase(op) == Phase::backward ? base_[op] : op;
  const bool is = way_[op] == Way::share && !of.is_none() &&
                  (graph_.type(of) == "MatMul" || graph_.type(of) == "Attention") && shapes_[of]->reads.size() > 1 &&
                  shapes_[of]->reads[1].extents[1] % ranks_ != 0;
  return is ? of : OpId::none();
}

bool Sharding::is_of_queries(OpId op, const OpShapes::Tensor& tensor, bool made, std::size_t number) const {
  const OpId of = grouped(op);
  if (of.is_none()) return true;
  if (graph_.type(of) == "Attention")
    return tensor.extents.size() == 4 && tensor.extents[1] == shapes_[of]->reads.front().extents[1];
  if (graph_.phase(op) == Phase::forward) return made || number == 0;
  if (graph_.type(op).ends_with("GradB")) return !made;  // reads dY and A, makes dB
  return made ? number == 0 : number != 1;               // reads dY, B and A, makes dA and dB
}

bool Sharding::is_product_of_experts(OpId op, const OpShapes& shapes) const {
  return graph_.type(op) == "MatMul" && graph_.inputs(op).size() == 1 && holds_parameters(graph_, op) &&
         shapes.reads.size() == 2 && shapes.reads[0].extents.size() == 3 && shapes.reads[1].extents.size() == 3;
}

bool Sharding::routes(OpId op) const {
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

bool Sharding::all_rows(OpId op, const OpShapes& shapes) const {
  if (!shapes.writes.front().has_rows() || sums_partial(op)) return false;
  const OpShapes::Tensor& made = shapes.writes.front();
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

bool Sharding::all_shares(OpId op, double part) const {
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

RankLayout Sharding::made(OpId op, TensorId tensor, std::size_t number, std::size_t outputs) const {
  const bool backward = graph_.phase(op) == Phase::backward;
  switch (way_[op]) {
    case Way::whole:
      return !graph_.inputs(op).empty() && sums_partial(op) ? Layout::partial : Layout::whole;
    case Way::share:
      if (graph_.type(op) == kSquareSumType) return Layout::partial;
      if (backward && shapes_[op] && number < shapes_[op]->writes.size() &&
          !is_of_queries(op, shapes_[op]->writes[number], true, number))
        return Layout::partial;
      return is_loss(op) && number == 0 ? Layout::whole : Layout::share;
    case Way::rows:
      return backward && use_.is_gradient[tensor] ? Layout::partial : Layout::rows;
    case Way::column:
      return backward && !use_.is_gradient[tensor] ? Layout::partial : Layout::share;
    case Way::row: {
      if (!backward) return Layout::partial;
      // The bias comes last: behind the gradient of x, which may be several slices, and that of the weights.
      const bool bias = number + 1 == outputs && shapes_[op] && shapes_[op]->writes.back().extents.size() == 1;
      return bias ? Layout::whole : Layout::share;
    }
    case Way::vocabulary:
      return backward ? Layout::share : Layout::partial;
  }
  return Layout::whole;
}

void Sharding::divide_product(OpId op, OpShapes& shapes) const {
  const bool column = way_[op] == Way::column, forward = graph_.phase(op) == Phase::forward;
  const std::string_view type = graph_.type(op);
  OpShapes::Tensor *x = nullptr, *w = nullptr, *y = nullptr, *b = nullptr;
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

void Sharding::divide_operands(bool column, OpShapes::Tensor* y, OpShapes::Tensor* x) const {
  OpShapes::Tensor* shared = column ? y : x;
  if (shared && !shared->extents.empty()) divide(*shared, shared->feature());
}

void Sharding::divide_weights(bool column, std::int64_t outer, std::string_view type, OpShapes::Tensor& w) const {
  const bool inner_first = type.starts_with("Linear") || type.starts_with("MatMul") || w.extents[0] != outer;
  const std::size_t experts = type.starts_with("MatMul") && w.extents.size() == 3 ? 1 : 0;  // leading dimensions
  divide(w, experts + (column == inner_first ? 1 : 0));
}

}  // namespace trainyard::detail
