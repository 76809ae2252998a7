#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard::detail {

/// Thrown by a rule that cannot determine a shape because it depends on something that is not known before the run.
struct ShapeUnknown : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Thrown by a rule if the node's inputs or attributes do not fit its operator.
struct ShapeMismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A node as a shape rule sees it: the shapes, types and contents of its inputs, its attributes, and its outputs to
/// fill in. The accessors throw ShapeMismatch or ShapeUnknown for an argument that the operator does not allow.
class ShapeContext {
 public:
  ShapeContext(Model& model, NodeId node) : model_(model), node_(model.nodes[node]) {}

  const Node& node() const { return node_; }
  std::size_t input_count() const { return node_.inputs.size(); }
  std::size_t output_count() const { return node_.outputs.size(); }

  bool has(std::size_t input) const { return input < node_.inputs.size() && !node_.inputs[input].is_none(); }
  const Value& value(std::size_t input) const;
  const Shape& shape(std::size_t input) const;
  DataType type(std::size_t input) const { return value(input).type; }
  std::size_t rank(std::size_t input) const { return shape(input).size(); }
  /// The input's contents. Throws ShapeUnknown unless they are known whole numbers.
  const std::vector<std::int64_t>& contents(std::size_t input) const;
  /// The only number in the input.
  std::int64_t scalar(std::size_t input) const;

  void require(bool condition, const std::string& reason) const {
    if (!condition) fail(reason);
  }
  void require_rank(std::size_t input, std::size_t at_least) const;

  /// An attribute that counts or places elements. Its absolute value is at most 2^31, so that sums of a few products do
  /// not overflow.
  std::int64_t small_integer(const std::string& key, std::int64_t otherwise) const;
  std::vector<std::int64_t> small_integers(const std::string& key, std::vector<std::int64_t> otherwise = {}) const;
  /// An axis of an array of this rank; negative ones count from the end.
  std::size_t axis(std::int64_t given, std::size_t rank) const;
  std::vector<std::size_t> axes(const std::vector<std::int64_t>& given, std::size_t rank) const;
  /// Reads the attribute `key` or, without it, the contents of input `input`. Returns false if the node has neither.
  bool numbers(const std::string& key, std::size_t input, std::vector<std::int64_t>& result) const;

  /// Fills in an output. Does nothing for an output that the node omits.
  void output(std::size_t index, Shape shape, DataType type);

  [[noreturn]] void fail(const std::string& reason) const { throw ShapeMismatch(reason); }
  [[noreturn]] void unknown(const std::string& reason) const { throw ShapeUnknown(reason); }

 private:
  Model& model_;
  const Node& node_;
};

using ShapeRule = void (*)(ShapeContext&);

/// The rule of one operator, and its number of inputs if costs or gradients read these by position: the first `least`
/// must be present, and there are at most `most`.
struct NamedRule {
  std::string_view type;
  ShapeRule rule;
  std::size_t least = 0, most = static_cast<std::size_t>(-1);
};

// One table per family of operators.
std::span<const NamedRule> elementwise_rules();
std::span<const NamedRule> window_rules();    // convolutions, pools, normalizations, resizing
std::span<const NamedRule> product_rules();   // matrix products, recurrent cells, losses
std::span<const NamedRule> layout_rules();    // reshape, transpose, concat, split, slice, pad
std::span<const NamedRule> indexing_rules();  // gather, scatter, top-k
std::span<const NamedRule> reduction_rules();
std::span<const NamedRule> source_rules();  // constants, ranges, random numbers, shapes as data

/// NumPy's broadcasting: shapes are aligned at their ends, and each pair of dimensions must be equal or contain a 1.
Shape broadcast(const ShapeContext& context, const Shape& a, const Shape& b);

/// "Conv 'conv1'".
std::string described(const Node& node);
/// Throws InputError ("unknown-value") for an id that `where` names and the model has no value for.
[[noreturn]] void refuse_value(const Model& model, ValueId id, const std::string& where);
/// Throws InputError ("unknown-operator") for a node whose type has no rule. `help` follows the most similar known type
/// in the help text.
[[noreturn]] void refuse_operator(const Node& node, const std::string& help);

/// Follows the contents of small arrays through the node. The shapes of its outputs must be known.
void infer_contents(Model& model, NodeId node);

}  // namespace trainyard::detail
