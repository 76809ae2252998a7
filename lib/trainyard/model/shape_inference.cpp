#include "trainyard/model/shape_inference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/model/shape_rules.hpp"

namespace trainyard {

namespace detail {

namespace {
constexpr std::int64_t kLargestAttribute = std::int64_t{1} << 31;
}

const Value& ShapeContext::value(std::size_t input) const {
  if (!has(input)) fail(fmt::format("input {} is missing", input));
  return model_.values[node_.inputs[input]];
}

const Shape& ShapeContext::shape(std::size_t input) const {
  const Value& given = value(input);
  if (!given.shape_known) unknown(fmt::format("the shape of its input '{}' is not known", given.name));
  return given.shape;
}

const std::vector<std::int64_t>& ShapeContext::contents(std::size_t input) const {
  const Value& given = value(input);
  if (!given.contents_known)
    unknown(fmt::format("it depends on the contents of '{}', which are not known before the run", given.name));
  return given.integers;
}

std::int64_t ShapeContext::scalar(std::size_t input) const {
  const auto& given = contents(input);
  require(given.size() == 1, fmt::format("input {} is not one number", input));
  return given[0];
}

void ShapeContext::require_rank(std::size_t input, std::size_t at_least) const {
  if (rank(input) < at_least) {
    fail(fmt::format("input {} ({}) has {}, but needs at least {}", input, text_of(shape(input)),
                     counted(rank(input), "dimension"), at_least));
  }
}

std::int64_t ShapeContext::small_integer(const std::string& key, std::int64_t otherwise) const {
  const std::int64_t given = node_.integer(key, otherwise);
  require(given <= kLargestAttribute && given >= -kLargestAttribute, fmt::format("{} is {}: too large", key, given));
  return given;
}

std::vector<std::int64_t> ShapeContext::small_integers(const std::string& key,
                                                       std::vector<std::int64_t> otherwise) const {
  std::vector<std::int64_t> given = node_.integers(key, std::move(otherwise));
  for (const std::int64_t number : given) {
    require(number <= kLargestAttribute && number >= -kLargestAttribute,
            fmt::format("{} holds {}: too large", key, number));
  }
  return given;
}

std::size_t ShapeContext::axis(std::int64_t given, std::size_t rank) const {
  const auto count = static_cast<std::int64_t>(rank);
  if (given < -count || given >= count)
    fail(fmt::format("axis {} is outside an array of {}", given, counted(rank, "dimension")));
  return static_cast<std::size_t>(given < 0 ? given + count : given);
}

std::vector<std::size_t> ShapeContext::axes(const std::vector<std::int64_t>& given, std::size_t rank) const {
  std::vector<std::size_t> result;
  for (const std::int64_t number : given) {
    const std::size_t one = axis(number, rank);
    require(std::find(result.begin(), result.end(), one) == result.end(),
            fmt::format("axis {} is given twice", number));
    result.push_back(one);
  }
  return result;
}

bool ShapeContext::numbers(const std::string& key, std::size_t input, std::vector<std::int64_t>& result) const {
  if (node_.has_attribute(key)) {
    result = node_.integers(key);
    return true;
  }
  if (!has(input)) return false;
  result = contents(input);
  return true;
}

void ShapeContext::output(std::size_t index, Shape shape, DataType type) {
  if (index >= node_.outputs.size() || node_.outputs[index].is_none()) return;
  require(shape.size() <= kMostDimensions, fmt::format("its output would have {} dimensions", shape.size()));
  for (const std::int64_t extent : shape) {
    if (extent < 0) fail(fmt::format("its output would have a dimension of {}", extent));
    if (extent > kLargestDimension) fail(fmt::format("its output would have a dimension of {}: too large", extent));
  }
  elements(shape);  // throws if it is too large
  Value& value = model_.values[node_.outputs[index]];
  value.shape = std::move(shape);
  value.type = type;
  value.shape_known = true;
}

namespace {

const std::map<std::string_view, NamedRule>& rules() {
  static const std::map<std::string_view, NamedRule> table = [] {
    std::map<std::string_view, NamedRule> all;
    for (const auto family : {elementwise_rules(), window_rules(), product_rules(), layout_rules(), indexing_rules(),
                              reduction_rules(), source_rules()})
      for (const NamedRule& rule : family) all.emplace(rule.type, rule);
    return all;
  }();
  return table;
}

bool outputs_given(const Model& model, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId id) { return id.is_none() || model.values[id].shape_known; });
}

void check_values(const Model& model, const Node& node) {
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const ValueId id : *list)
      if (!id.is_none() && id.index() >= model.values.size()) refuse_value(model, id, described(node));
}

void infer_node(Model& model, NodeId id) {
  const Node& node = model.nodes[id];
  const auto rule = rules().find(node.type);
  if (rule == rules().end()) {
    if (outputs_given(model, node)) return;
    refuse_operator(node,
                    "write the shapes of its outputs into the file's value_info, or express it in "
                    "standard operators");
  }
  try {
    ShapeContext context{model, id};
    const auto& [type, shape_rule, least, most] = rule->second;
    for (std::size_t i = 0; i < least; ++i) context.value(i);
    context.require(context.input_count() <= most,
                    fmt::format("it has {}, at most {} are allowed", counted(context.input_count(), "input"), most));
    shape_rule(context);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].is_none() && !model.values[node.outputs[i]].shape_known)
        throw ShapeMismatch(fmt::format("it has no output {}, '{}'", i, model.values[node.outputs[i]].name));
  } catch (const ShapeMismatch& problem) {
    refuse("shape-mismatch", fmt::format("{}: {}", described(node), problem.what()), {});
  } catch (const InputError& problem) {
    Finding finding = problem.findings().front();
    if (finding.message.rfind(described(node), 0) != 0)
      finding.message = fmt::format("{}: {}", described(node), finding.message);
    throw InputError(finding);
  }
  infer_contents(model, id);
}

}  // namespace

std::string described(const Node& node) { return fmt::format("{} '{}'", node.type, node.name); }

void refuse_value(const Model& model, ValueId id, const std::string& where) {
  refuse("unknown-value",
         fmt::format("{} names value {}, but there are {} values", where,
                     id.is_none() ? "none" : fmt::format("{}", id.index()), model.values.size()),
         "add the value to the model's values first");
}

void refuse_operator(const Node& node, const std::string& help) {
  std::vector<std::string> known;
  for (const auto& [type, rule] : rules()) known.emplace_back(type);
  std::string nearest = did_you_mean(node.type, known);
  if (!nearest.empty()) nearest += ' ';
  refuse("unknown-operator", fmt::format("{}: the shapes that this operator produces are not known", described(node)),
         nearest + help);
}

}  // namespace detail

void infer_shapes(Model& model, NodeId id) {
  try {
    detail::infer_node(model, id);
  } catch (const detail::ShapeUnknown& problem) {
    const Node& node = model.nodes[id];
    if (detail::outputs_given(model, node)) return;
    refuse("unknown-shape", fmt::format("{}: {}", detail::described(node), problem.what()),
           "write the shapes of its outputs into the file's value_info");
  }
}

void infer_shapes(Model& model) {
  std::vector<Finding> findings;
  for (const NodeId id : model.nodes.ids()) {
    const Node& node = model.nodes[id];
    try {
      detail::check_values(model, node);
      const bool follows = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        return !input.is_none() && !model.values[input].shape_known;
      });
      // A missing shape that is only a consequence of an earlier finding is not reported again.
      if (follows && !findings.empty()) continue;
      infer_shapes(model, id);
    } catch (const InputError& problem) {
      findings.push_back(problem.findings().front());
      if (findings.size() == kMostFindings) break;
    }
  }
  if (!findings.empty()) throw InputError(std::move(findings));
}

bool has_shape_rule(std::string_view type) { return detail::rules().count(type) > 0; }

void note_unknown_operators(Model& model) {
  std::map<std::string, std::pair<std::size_t, std::string>> found;  // number and first name, by type
  for (const Node& node : model.nodes) {
    if (has_shape_rule(node.type)) continue;
    auto& [count, first] = found[node.type];
    if (count++ == 0) first = node.name;
  }
  for (const auto& [type, nodes] : found)
    model.notes.push_back(
        fmt::format("only the shapes of operator {} ({}) are known: one FLOP is counted for each element of its "
                    "outputs, and the same backward; give its time in a calibration (--costs)",
                    type,
                    nodes.first == 1 ? fmt::format("'{}'", nodes.second)
                                     : fmt::format("'{}' and {} more", nodes.second, nodes.first - 1)));
}

}  // namespace trainyard
