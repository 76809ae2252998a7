#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trainyard/model/shape_rules.hpp"

namespace trainyard::detail {

namespace {

void require_equal_depth(const ShapeContext& context, std::int64_t a, std::int64_t b) {
  if (a != b) {
    context.fail(fmt::format("{} times {}: the inner dimensions {} and {} differ", text_of(context.shape(0)),
                             text_of(context.shape(1)), a, b));
  }
}

/// NumPy's matmul: a vector gains a dimension that is dropped again; the leading dimensions are broadcast.
Shape product(const ShapeContext& context) {
  context.require_rank(0, 1);
  context.require_rank(1, 1);
  Shape a = context.shape(0), b = context.shape(1);
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  require_equal_depth(context, a.back(), b[b.size() - 2]);
  Shape result = broadcast(context, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!row) result.push_back(a[a.size() - 2]);
  if (!column) result.push_back(b.back());
  return result;
}

void matrix_product(ShapeContext& context) { context.output(0, product(context), context.type(0)); }

void integer_product(ShapeContext& context) { context.output(0, product(context), DataType::int32); }

void gemm(ShapeContext& context) {
  const Shape& a = context.shape(0);
  const Shape& b = context.shape(1);
  context.require(a.size() == 2 && b.size() == 2,
                  fmt::format("{} times {}: both must be matrices", text_of(a), text_of(b)));
  const bool flip_a = context.node().integer("transA", 0) != 0, flip_b = context.node().integer("transB", 0) != 0;
  require_equal_depth(context, a[flip_a ? 0 : 1], b[flip_b ? 1 : 0]);
  const Shape y = {a[flip_a ? 1 : 0], b[flip_b ? 0 : 1]};
  if (context.has(2))
    context.require(broadcast(context, y, context.shape(2)) == y, "the third input is larger than the product");
  context.output(0, y, context.type(0));
}

/// The last dimension of x times weight [K, N].
void linear(ShapeContext& context) {
  context.require_rank(0, 1);
  Shape y = context.shape(0);
  const Shape& weight = context.shape(1);
  context.require(weight.size() == 2, fmt::format("the weight {} is not a matrix", text_of(weight)));
  require_equal_depth(context, y.back(), weight[0]);
  y.back() = weight[1];
  if (context.has(2)) {
    context.require(context.shape(2) == Shape{weight[1]},
                    fmt::format("the bias {} does not have one number for each of {} outputs",
                                text_of(context.shape(2)), weight[1]));
  }
  context.output(0, std::move(y), context.type(0));
}

/// LSTM, GRU and RNN: X [steps, batch, input], R [directions, gates * hidden, hidden]. With layout 1 the batch comes
/// first.
void recurrent(ShapeContext& context) {
  context.require_rank(0, 3);
  context.require_rank(2, 3);
  const Shape& x = context.shape(0);
  const std::int64_t hidden = context.small_integer("hidden_size", context.shape(2)[2]);
  const std::int64_t directions = context.node().text("direction", "forward") == "bidirectional" ? 2 : 1;
  context.require(context.shape(1).size() == 3 && context.shape(1)[2] == x[2],
                  fmt::format("the input has {} features, but the weight has {}", x[2], text_of(context.shape(1))));
  context.require(
      context.shape(2)[0] == directions && context.shape(2)[2] == hidden,
      fmt::format("{} directions of {} cells do not fit the weight {}", directions, hidden, text_of(context.shape(2))));
  const bool batch_first = context.node().integer("layout", 0) != 0;
  const std::int64_t steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1];
  const Shape last = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  context.output(0, batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden},
                 context.type(0));
  context.output(1, last, context.type(0));
  context.output(2, last, context.type(0));
}

/// Extents of an equation's letters, in alphabetical order, and the dimensions that the ellipsis stands for.
struct Letters {
  std::map<char, std::int64_t> extent;
  std::map<char, int> uses;
  Shape ellipsis;
};

void read_term(const ShapeContext& context, std::string_view term, const Shape& shape, Letters& letters) {
  const std::size_t dots = term.find("...");
  const std::size_t named = term.size() - (dots == std::string_view::npos ? 0 : 3);
  context.require(dots == std::string_view::npos ? named == shape.size() : named <= shape.size(),
                  fmt::format("the term '{}' does not fit {}", term, text_of(shape)));
  std::size_t dimension = 0;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      const std::size_t count = shape.size() - named;
      const auto from = shape.begin() + static_cast<std::ptrdiff_t>(dimension);
      letters.ellipsis = broadcast(context, letters.ellipsis, Shape(from, from + static_cast<std::ptrdiff_t>(count)));
      dimension += count;
      i += 2;
      continue;
    }
    const char letter = term[i];
    context.require((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'),
                    fmt::format("the term '{}' holds something other than letters", term));
    const std::int64_t extent = shape[dimension++];
    ++letters.uses[letter];
    std::int64_t& known = letters.extent.try_emplace(letter, extent).first->second;
    context.require(known == extent || known == 1 || extent == 1,
                    fmt::format("'{}' stands for both {} and {}", letter, known, extent));
    known = std::max(known, extent);
  }
}

void einsum(ShapeContext& context) {
  std::string equation = context.node().text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const std::size_t arrow = equation.find("->");
  std::string_view left{equation};
  left = left.substr(0, arrow);
  Letters letters;
  for (std::size_t input = 0; input < context.input_count(); ++input) {
    const std::size_t comma = left.find(',');
    context.require((comma == std::string_view::npos) == (input + 1 == context.input_count()),
                    fmt::format("the equation '{}' does not have one term for each input", equation));
    read_term(context, left.substr(0, comma), context.shape(input), letters);
    left = comma == std::string_view::npos ? std::string_view{} : left.substr(comma + 1);
  }
  std::string right;
  if (arrow != std::string::npos) {
    right = equation.substr(arrow + 2);
  } else {  // implied: the ellipsis, then the letters used once, in alphabetical order
    right = "...";
    for (const auto& [letter, uses] : letters.uses)
      if (uses == 1) right += letter;
  }
  Shape y;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (right.compare(i, 3, "...") == 0) {
      y.insert(y.end(), letters.ellipsis.begin(), letters.ellipsis.end());
      i += 2;
      continue;
    }
    const auto at = letters.extent.find(right[i]);
    context.require(at != letters.extent.end(), fmt::format("'{}' is not in the terms of '{}'", right[i], equation));
    y.push_back(at->second);
  }
  context.output(0, std::move(y), context.type(0));
}

/// Scores [N, C, ...] and labels [N, ...]. The first output is the loss, one number or one per label; the second the
/// log-probabilities.
void classification_loss(ShapeContext& context) {
  context.require_rank(0, 1);
  const std::string reduction = context.node().text("reduction", "mean");
  context.output(0, reduction == "none" ? context.shape(1) : Shape{}, context.type(0));
  context.output(1, context.shape(0), context.type(0));
}

/// Q, K, V as [batch, heads, length, size] or [batch, length, heads * size].
void attention(ShapeContext& context) {
  context.require_rank(0, 3);
  const Shape& q = context.shape(0);
  const Shape& v = context.shape(2);
  context.require(context.rank(1) == q.size() && v.size() == q.size(),
                  "query, key and value have different numbers of dimensions");
  Shape y = q;
  if (q.size() == 4) {
    y[3] = v[3];
  } else {
    const std::int64_t heads = context.small_integer("q_num_heads", 1);
    const std::int64_t shared = context.small_integer("kv_num_heads", 1);
    context.require(heads >= 1 && shared >= 1, "the number of heads is below 1");
    context.require(v.back() <= kLargestDimension && v.back() / shared <= kLargestDimension / heads,
                    "its output is too large");
    y.back() = v.back() / shared * heads;
  }
  context.output(0, std::move(y), context.type(0));
  if (context.output_count() > 1) context.unknown("its further outputs are not supported");
}

constexpr NamedRule kProductRules[] = {
    {"Attention", attention, 3},
    {"Einsum", einsum},
    {"GRU", recurrent},
    {"Gemm", gemm},
    {"LSTM", recurrent},
    {"Linear", linear},
    {"MatMul", matrix_product},
    {"MatMulInteger", integer_product},
    {"NegativeLogLikelihoodLoss", classification_loss, 2},
    {"RNN", recurrent},
    {"SoftmaxCrossEntropy", classification_loss, 2},
    {"SoftmaxCrossEntropyLoss", classification_loss, 2},
};

}  // namespace

std::span<const NamedRule> product_rules() { return kProductRules; }

}  // namespace trainyard::detail
