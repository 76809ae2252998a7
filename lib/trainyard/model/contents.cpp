#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "trainyard/model/number_arithmetic.hpp"
#include "trainyard/model/op_kind.hpp"
#include "trainyard/model/shape_inference.hpp"
#include "trainyard/model/shape_rules.hpp"

// Follows the contents of small arrays from node to node: exporters mostly compute the argument of a Reshape by Shape,
// Gather, Concat and a little arithmetic. If something is unknown or unsupported, the contents of the result stay
// unknown, and a shape rule that needs them reports it.

namespace trainyard::detail {

namespace {

/// An array with its contents: whole numbers in `whole`, those of a floating-point type in `real`.
struct Literal {
  Shape shape;
  DataType type = DataType::int64;
  std::vector<std::int64_t> whole;
  std::vector<double> real;

  bool floating() const { return is_floating_point(type); }
  std::size_t size() const { return floating() ? real.size() : whole.size(); }
  /// Appends the number at a place of another array.
  void take(const Literal& from, std::size_t place) {
    if (from.floating())
      real.push_back(from.real[place]);
    else
      whole.push_back(from.whole[place]);
  }
  double number(std::size_t at) const { return floating() ? real[at] : static_cast<double>(whole[at]); }
};

std::size_t count_of(const Shape& shape) { return static_cast<std::size_t>(elements(shape)); }

std::optional<Literal> literal_of(const Model& model, ValueId id) {
  if (id.is_none()) return std::nullopt;
  const Value& value = model.values[id];
  if (!value.shape_known) return std::nullopt;
  const std::size_t count = count_of(value.shape);
  if (is_floating_point(value.type)) {
    if (value.reals.size() != count) return std::nullopt;
    return Literal{value.shape, value.type, {}, value.reals};
  }
  if (!value.contents_known || value.integers.size() != count) return std::nullopt;
  return Literal{value.shape, value.type, value.integers, {}};
}

/// Calls `visit` with each index of the shape, in row-major order.
template <class Visit>
void for_each_index(const Shape& shape, Visit visit) {
  std::vector<std::size_t> index(shape.size(), 0);
  for (std::size_t left = count_of(shape); left > 0; --left) {
    visit(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < static_cast<std::size_t>(shape[d])) break;
      index[d] = 0;
    }
  }
}

/// Row-major position, in an array of the shape, of an index that is aligned with it at the ends. Dimensions of 1 are
/// broadcast.
std::size_t place_in(const Shape& shape, const std::vector<std::size_t>& index) {
  const std::size_t offset = index.size() - shape.size();
  std::size_t place = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto extent = static_cast<std::size_t>(shape[d]);
    place = place * extent + (extent == 1 ? 0 : index[offset + d]);
  }
  return place;
}

/// An array of the shape. `source` maps each index of it to the index of the number in `from`.
template <class Source>
Literal picked(const Literal& from, const Shape& shape, const Source& source) {
  Literal result{shape, from.type, {}, {}};
  for_each_index(shape, [&](std::vector<std::size_t> index) {
    source(index);
    result.take(from, place_in(from.shape, index));
  });
  return result;
}

/// Evaluates one node to find the contents of its outputs.
class Follower {
 public:
  Follower(Model& model, NodeId node) : model_(model), node_(model.nodes[node]) {}

  void run() {
    const std::string& type = node_.type;
    for (const ValueId id : node_.outputs) {
      if (id.is_none()) continue;
      model_.values[id].contents_known = false;
      model_.values[id].integers.clear();
      model_.values[id].reals.clear();
    }
    if (node_.outputs.empty() || node_.outputs[0].is_none() || !small(0)) return;
    if (node_.has_attribute("broadcast")) return;  // broadcasting of opsets before 7 is not followed
    if (type == "Shape" || type == "Size") return set(0, shape_or_size());
    if (type == "Split") return split();
    std::vector<Literal> inputs;
    for (const ValueId id : node_.inputs) {
      auto literal = literal_of(model_, id);
      if (!literal && !id.is_none()) return;
      inputs.push_back(literal ? std::move(*literal) : Literal{});
    }
    if (type == "Constant") return set(0, constant());
    if (inputs.empty() || node_.inputs[0].is_none()) return;
    if (auto result = moved(inputs)) return set(0, std::move(*result));
    if (auto result = calculated(inputs)) return set(0, std::move(*result));
  }

 private:
  const Shape& out(std::size_t i = 0) const { return model_.values[node_.outputs[i]].shape; }
  /// The attribute "axis", as an index into an array of this rank.
  std::size_t axis(std::int64_t usual, std::size_t rank) const { return axis_at(node_.integer("axis", usual), rank); }
  bool small(std::size_t i) const { return elements(out(i)) <= kMostContents; }

  void set(std::size_t i, Literal literal) {
    Value& value = model_.values[node_.outputs[i]];
    if (literal.size() != count_of(value.shape)) return;
    value.reals = std::move(literal.real);
    value.integers = std::move(literal.whole);
    value.contents_known = true;
    for (const double number : value.reals)
      if (number != std::floor(number) || std::abs(number) > 0x1p53) value.contents_known = false;
    if (!value.contents_known) return;
    for (const double number : value.reals) value.integers.push_back(static_cast<std::int64_t>(number));
  }

  Literal shape_or_size() const {
    const Shape& shape = model_.values[node_.inputs[0]].shape;
    if (node_.type == "Size") return {{}, DataType::int64, {elements(shape)}, {}};
    const auto rank = static_cast<std::int64_t>(shape.size());
    std::int64_t start = node_.integer("start", 0);
    start = start < -rank ? 0 : start < 0 ? start + rank : std::min(start, rank);
    const auto first = shape.begin() + start;
    return {out(), DataType::int64, Shape(first, first + out()[0]), {}};
  }

  Literal constant() const {
    Literal result{out(), model_.values[node_.outputs[0]].type, {}, {}};
    if (node_.has_attribute("value_int")) result.whole = {node_.integer("value_int", 0)};
    if (node_.has_attribute("value_ints")) result.whole = node_.integers("value_ints");
    if (node_.has_attribute("value_float")) result.real = {node_.real("value_float", 0)};
    const auto floats = node_.attributes.find("value_floats");
    if (floats != node_.attributes.end()) result.real = std::get<std::vector<double>>(floats->second);
    return result;
  }

  void split() {
    const auto from = literal_of(model_, node_.inputs[0]);
    if (!from) return;
    const std::size_t along = axis(0, from->shape.size());
    std::size_t offset = 0;
    for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
      if (node_.outputs[i].is_none()) return;  // its length would be unknown
      set(i, picked(*from, out(i), [&](std::vector<std::size_t>& index) { index[along] += offset; }));
      offset += static_cast<std::size_t>(out(i)[along]);
    }
  }

  std::optional<Literal> moved(const std::vector<Literal>& inputs) const;
  std::optional<Literal> gathered(const Literal& from, const Literal& index) const;
  std::optional<Literal> sliced(const std::vector<Literal>& inputs) const;
  std::optional<Literal> calculated(const std::vector<Literal>& inputs) const;
  std::optional<Literal> cast(const Literal& from) const;
  std::optional<Literal> filled() const;

  Model& model_;
  const Node& node_;
};

/// Operators that only move numbers.
std::optional<Literal> Follower::moved(const std::vector<Literal>& inputs) const {
  const std::string& type = node_.type;
  const Literal& from = inputs[0];
  if (type == "Reshape" || type == "Squeeze" || type == "Unsqueeze" || type == "Flatten" || type == "Identity")
    return Literal{out(), from.type, from.whole, from.real};
  if (type == "Transpose") {
    const auto order = node_.integers("perm");
    return picked(from, out(), [&](std::vector<std::size_t>& index) {
      const std::vector<std::size_t> at = index;
      for (std::size_t d = 0; d < at.size(); ++d)
        index[order.empty() ? at.size() - 1 - d : axis_at(order[d], at.size())] = at[d];
    });
  }
  if (type == "Expand") return picked(from, out(), [](const std::vector<std::size_t>&) {});
  if (type == "Tile")
    return picked(from, out(), [&](std::vector<std::size_t>& index) {
      for (std::size_t d = 0; d < index.size(); ++d) index[d] %= static_cast<std::size_t>(from.shape[d]);
    });
  if (type == "Gather") return gathered(from, inputs[1]);
  if (type == "Slice") return sliced(inputs);
  if (type == "Concat") {
    const std::size_t along = axis(1, out().size());
    Literal result{out(), from.type, {}, {}};
    bool alike = true;
    for (const Literal& input : inputs) alike = alike && input.floating() == from.floating();
    if (!alike) return std::nullopt;
    for_each_index(out(), [&](std::vector<std::size_t> index) {
      std::size_t which = 0;
      while (index[along] >= static_cast<std::size_t>(inputs[which].shape[along]))
        index[along] -= static_cast<std::size_t>(inputs[which++].shape[along]);
      result.take(inputs[which], place_in(inputs[which].shape, index));
    });
    return result;
  }
  return std::nullopt;
}

std::optional<Literal> Follower::gathered(const Literal& from, const Literal& index) const {
  if (index.floating()) return std::nullopt;
  const std::size_t along = axis(0, from.shape.size());
  const std::int64_t extent = from.shape[along];
  for (const std::int64_t number : index.whole)
    if (number < -extent || number >= extent) return std::nullopt;
  return picked(from, out(), [&](std::vector<std::size_t>& at) {
    const auto middle = at.begin() + static_cast<std::ptrdiff_t>(along);
    const auto after = middle + static_cast<std::ptrdiff_t>(index.shape.size());
    const std::int64_t chosen = index.whole[place_in(index.shape, {middle, after})];
    std::vector<std::size_t> source(at.begin(), middle);
    source.push_back(static_cast<std::size_t>(chosen < 0 ? chosen + extent : chosen));
    source.insert(source.end(), after, at.end());
    at = std::move(source);
  });
}

std::optional<Literal> Follower::sliced(const std::vector<Literal>& inputs) const {
  const Literal& from = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i)
    if (inputs[i].floating()) return std::nullopt;
  const auto list = [&](const char* key, std::size_t input) -> std::vector<std::int64_t> {
    if (node_.has_attribute(key)) return node_.integers(key);
    return input < inputs.size() ? inputs[input].whole : std::vector<std::int64_t>{};
  };
  const auto starts = list("starts", 1), axes = list("axes", 3);
  const auto steps = inputs.size() > 4 ? inputs[4].whole : std::vector<std::int64_t>{};
  std::vector<std::int64_t> first(from.shape.size(), 0), step(from.shape.size(), 1);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t along = axes.empty() ? i : axis_at(axes[i], from.shape.size());
    const std::int64_t extent = from.shape[along];
    step[along] = steps.empty() ? 1 : steps[i];
    const std::int64_t start = starts[i] < 0 ? starts[i] + extent : starts[i];
    first[along] = std::clamp(start, std::int64_t{0}, std::max(extent - (step[along] < 0 ? 1 : 0), std::int64_t{0}));
  }
  return picked(from, out(), [&](std::vector<std::size_t>& index) {
    for (std::size_t d = 0; d < index.size(); ++d)
      index[d] = index[d] == 0 ? static_cast<std::size_t>(first[d])
                               : static_cast<std::size_t>(first[d] + static_cast<std::int64_t>(index[d]) * step[d]);
  });
}

std::optional<bool> compared(const std::string& type, const Literal& a, std::size_t i, const Literal& b,
                             std::size_t j) {
  const auto decide = [&type](auto x, auto y) -> std::optional<bool> {
    if (type == "Equal") return !(x < y) && !(y < x);
    if (type == "Less") return x < y;
    if (type == "LessOrEqual") return !(y < x);
    if (type == "Greater") return y < x;
    if (type == "GreaterOrEqual") return !(x < y);
    return std::nullopt;
  };
  if (!a.floating() && !b.floating()) return decide(a.whole[i], b.whole[j]);
  return decide(a.number(i), b.number(j));
}

std::optional<Literal> Follower::filled() const {
  Literal result{out(), model_.values[node_.outputs[0]].type, {}, {}};
  double real = 0;
  std::int64_t whole = 0;
  const auto given = node_.attributes.find("value");
  if (given != node_.attributes.end()) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&given->second); list && list->size() == 1) {
      whole = list->front();
      real = static_cast<double>(whole);
    } else if (const auto* reals = std::get_if<std::vector<double>>(&given->second); reals && reals->size() == 1) {
      real = reals->front();
    } else {
      return std::nullopt;
    }
  }
  if (result.floating())
    result.real.assign(count_of(out()), real);
  else
    result.whole.assign(count_of(out()), whole);
  return result;
}

std::optional<Literal> Follower::cast(const Literal& from) const {
  Literal result{out(), model_.values[node_.outputs[0]].type, {}, {}};
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double number = from.number(i);
    if (result.type == DataType::boolean)
      result.whole.push_back(number != 0);
    else if (result.floating())
      result.real.push_back(number);
    else if (!from.floating())
      result.whole.push_back(from.whole[i]);
    else if (std::abs(number) < 0x1p62)
      result.whole.push_back(static_cast<std::int64_t>(number));
    else
      return std::nullopt;
  }
  return result;
}

/// Operators that compute numbers.
std::optional<Literal> Follower::calculated(const std::vector<Literal>& inputs) const {
  const std::string& type = node_.type;
  const Literal& a = inputs[0];
  if (type == "ConstantOfShape") return filled();
  if (type == "Cast") return cast(a);
  Literal result{out(), model_.values[node_.outputs[0]].type, {}, {}};
  if (type == "Sqrt" || type == "Floor" || type == "Ceil" || type == "Neg" || type == "Not") {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (type == "Not") {
        if (a.floating()) return std::nullopt;
        result.whole.push_back(a.whole[i] == 0);
      } else if (!a.floating()) {
        if (type != "Neg" || a.whole[i] == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
        result.whole.push_back(-a.whole[i]);
      } else {
        const double x = a.real[i];
        result.real.push_back(type == "Sqrt"    ? std::sqrt(x)
                              : type == "Floor" ? std::floor(x)
                              : type == "Ceil"  ? std::ceil(x)
                                                : -x);
      }
    }
    return result;
  }
  if (type == "Range") {
    for (std::int64_t i = 0; i < out()[0]; ++i) {
      if (a.floating()) {
        if (!inputs[2].floating()) return std::nullopt;
        result.real.push_back(a.real[0] + static_cast<double>(i) * inputs[2].real[0]);
      } else {
        if (inputs[2].floating()) return std::nullopt;
        result.whole.push_back(a.whole[0] + i * inputs[2].whole[0]);
      }
    }
    return result;
  }
  static constexpr std::array<std::string_view, 16> kFitted = {
      "Add",   "Sub",  "Mul",         "Div",     "Mod",
      "Pow",   "Max",  "Min",         "And",     "Or",
      "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
      "Where"};
  if (std::find(kFitted.begin(), kFitted.end(), type) == kFitted.end() || inputs.size() < 2) return std::nullopt;
  const bool choice = type == "Where";
  if (choice && (inputs.size() != 3 || a.floating() || inputs[1].floating() != inputs[2].floating()))
    return std::nullopt;
  if (!choice && inputs.size() != 2) return std::nullopt;
  bool known = true;
  for_each_index(out(), [&](const std::vector<std::size_t>& index) {
    const std::size_t i = place_in(a.shape, index), j = place_in(inputs[1].shape, index);
    if (choice) {
      const Literal& chosen = a.whole[i] != 0 ? inputs[1] : inputs[2];
      result.take(chosen, place_in(chosen.shape, index));
    } else if (const auto truth = compared(type, a, i, inputs[1], j)) {
      result.whole.push_back(*truth);
    } else if (a.floating() && inputs[1].floating()) {
      const auto number = real_result(type, a.real[i], inputs[1].real[j]);
      known = known && number;
      result.real.push_back(number.value_or(0));
    } else if (!a.floating() && !inputs[1].floating()) {
      const auto number = whole_result(type, a.whole[i], inputs[1].whole[j]);
      known = known && number;
      result.whole.push_back(number.value_or(0));
    } else {
      known = false;
    }
  });
  if (!known) return std::nullopt;
  return result;
}

}  // namespace

void infer_contents(Model& model, NodeId node) { Follower{model, node}.run(); }

}  // namespace trainyard::detail
