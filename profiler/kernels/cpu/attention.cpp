#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/cpu/matrix.hpp"

namespace trainyard::cpu {
namespace {

/// ONNX Attention without past keys: Y = softmax(scale Q K^T + mask) V by head, [B, heads, length, size] or [B, length,
/// heads x size]. Several query heads may share one head of keys and values. Ranks that share a sequence have queries
/// from "first_query" on, and keys from "first_key" on.
struct Heads {
  std::int64_t batch, heads, shared, queries, keys, size, value_size, ahead;
  bool split;  // arrays have rank 4
  float scale;
  bool causal;

  explicit Heads(const OpArrays& c) {
    const Shape &q = c.value(c.node.inputs[0]).shape, &k = c.value(c.node.inputs[1]).shape,
                &v = c.value(c.node.inputs[2]).shape;
    split = q.size() == 4;
    batch = q[0];
    heads = split ? q[1] : c.node.integer("q_num_heads", 1);
    shared = split ? k[1] : c.node.integer("kv_num_heads", 1);
    queries = split ? q[2] : q[1], keys = split ? k[2] : k[1];
    size = q.back() / (split ? 1 : heads), value_size = v.back() / (split ? 1 : shared);
    scale = static_cast<float>(c.node.real("scale", 1 / std::sqrt(static_cast<double>(size))));
    causal = c.node.integer("is_causal", 0) != 0;
    ahead = c.node.integer("first_query", 0) - c.node.integer("first_key", 0);
  }
  using Strided = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;
  /// Matrix [length, size] of one head in an array with `count` heads.
  Strided head(float* data, std::int64_t b, std::int64_t h, std::int64_t count, std::int64_t length,
               std::int64_t width) const {
    if (split) return {data + (b * count + h) * length * width, length, width, Eigen::OuterStride<>(width)};
    return {data + b * length * count * width + h * width, length, width, Eigen::OuterStride<>(count * width)};
  }
  std::int64_t partner(std::int64_t h) const { return h / (heads / shared); }

  /// Attention weights of one head. The log-sum-exp of each row's scores is kept; if `known`, it is read.
  void weights(const OpArrays& c, std::int64_t b, std::int64_t h, MatrixMap p, bool known = false) const {
    float* sums = c.kept() ? c.kept() + (b * heads + h) * queries : nullptr;
    p.noalias() = head(c.in[0].data, b, h, heads, queries, size) *
                  head(c.in[1].data, b, partner(h), shared, keys, size).transpose() * scale;
    if (const Array mask = c.input(3)) add_mask(c, mask, b, h, p);
    for (std::int64_t i = 0; i < queries; ++i) {
      if (causal)
        for (std::int64_t j = std::max<std::int64_t>(0, i + ahead + 1); j < keys; ++j)
          p(i, j) = -std::numeric_limits<float>::infinity();
      const float most = known ? sums[i] : p.row(i).maxCoeff();
      if (!std::isfinite(most)) {
        if (sums) sums[i] = most;
        p.row(i).setZero();
        continue;
      }
      p.row(i) = (p.row(i).array() - most).exp();
      if (known) continue;
      const float sum = p.row(i).sum();
      if (sums) sums[i] = most + std::log(sum);
      p.row(i) /= sum;
    }
  }

  /// Adds one head's part of the mask's gradient; `dp` is `scale` times the gradient of its masked scores.
  void add_mask_gradient(const OpArrays& c, std::int64_t b, std::int64_t h, MatrixMap dp) const {
    const Broadcast at{*c.dx[3].shape};
    float* to = c.dx[3].data + at.begin(b, h);
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j) to[i * at.step(2) + j * at.step(1)] += dp(i, j) / scale;
  }

 private:
  /// Offsets in a mask that is broadcast to [B, heads, queries, keys].
  struct Broadcast {
    const Shape& shape;

    /// Stride of a dimension, counted from 1 for the last; 0 if it is broadcast.
    std::int64_t step(std::size_t from_end) const {
      if (from_end > shape.size() || shape[shape.size() - from_end] == 1) return 0;
      std::int64_t product = 1;
      for (std::size_t i = shape.size() - from_end + 1; i < shape.size(); ++i) product *= shape[i];
      return product;
    }
    std::int64_t begin(std::int64_t b, std::int64_t h) const { return b * step(4) + h * step(3); }
  };

  /// Adds the mask to the scores. A boolean mask marks the keys that are visible.
  void add_mask(const OpArrays& c, const Array& mask, std::int64_t b, std::int64_t h, MatrixMap p) const {
    const Broadcast at{*mask.shape};
    const bool truth = c.value(c.node.inputs[3]).type == DataType::boolean;
    const float* from = mask.data + at.begin(b, h);
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j) {
        const float m = from[i * at.step(2) + j * at.step(1)];
        if (!truth)
          p(i, j) += m;
        else if (m == 0)
          p(i, j) = -std::numeric_limits<float>::infinity();
      }
  }
};

MatrixMap scratch(std::int64_t rows, std::int64_t columns) {
  return matrix(Scratch::floats(static_cast<std::size_t>(rows * columns)), rows, columns);
}

void attention(OpArrays& c) {
  const Heads a{c};
  const MatrixMap p = scratch(a.queries, a.keys);
  for (std::int64_t b = 0; b < a.batch; ++b)
    for (std::int64_t h = 0; h < a.heads; ++h) {
      a.weights(c, b, h, p);
      a.head(c.out[0].data, b, h, a.heads, a.queries, a.value_size).noalias() =
          p * a.head(c.in[2].data, b, a.partner(h), a.shared, a.keys, a.value_size);
    }
}

/// Adds the gradients of one head from its weights; `dp` starts from dY V^T, and each row's `dot` is the sum of its dY
/// Y.
template <class Dot>
void add_gradients(const OpArrays& c, const Heads& a, std::int64_t b, std::int64_t h, MatrixMap p, MatrixMap dp,
                   const Dot& dot) {
  const auto dy = a.head(c.dy[0].data, b, h, a.heads, a.queries, a.value_size);
  if (c.wants(2)) a.head(c.dx[2].data, b, a.partner(h), a.shared, a.keys, a.value_size).noalias() += p.transpose() * dy;
  dp.noalias() = dy * a.head(c.in[2].data, b, a.partner(h), a.shared, a.keys, a.value_size).transpose();
  for (std::int64_t i = 0; i < a.queries; ++i) dp.row(i) = p.row(i).array() * (dp.row(i).array() - dot(i)) * a.scale;
  if (c.wants(0))
    a.head(c.dx[0].data, b, h, a.heads, a.queries, a.size).noalias() +=
        dp * a.head(c.in[1].data, b, a.partner(h), a.shared, a.keys, a.size);
  if (c.wants(1))
    a.head(c.dx[1].data, b, a.partner(h), a.shared, a.keys, a.size).noalias() +=
        dp.transpose() * a.head(c.in[0].data, b, h, a.heads, a.queries, a.size);
}

void attention_backward(OpArrays& c) {
  const Heads a{c};
  const MatrixMap p = scratch(a.queries, a.keys), dp = scratch(a.queries, a.keys);
  for (std::size_t i = 0; i < c.dx.size(); ++i)
    if (c.wants(i)) std::fill_n(c.dx[i].data, c.dx[i].size(), 0.0F);
  for (std::int64_t b = 0; b < a.batch; ++b)
    for (std::int64_t h = 0; h < a.heads; ++h) {
      a.weights(c, b, h, p, c.kept() != nullptr);
      add_gradients(c, a, b, h, p, dp, [&](std::int64_t i) { return dp.row(i).dot(p.row(i)); });
      if (c.wants(3)) a.add_mask_gradient(c, b, h, dp);
    }
}

// A step of ring attention (rewrite/context_use.hpp): attention of the queries to one block of keys and values, merged
// into the result of the earlier steps, input 3. Each row keeps the log-sum-exp of its scores so far.

/// Scores of one head, with the causal mask.
void step_scores(const OpArrays& c, const Heads& a, std::int64_t b, std::int64_t h, MatrixMap p) {
  p.noalias() = a.head(c.in[0].data, b, h, a.heads, a.queries, a.size) *
                a.head(c.in[1].data, b, a.partner(h), a.shared, a.keys, a.size).transpose() * a.scale;
  for (std::int64_t i = 0; a.causal && i < a.queries; ++i)
    for (std::int64_t j = std::max<std::int64_t>(0, i + a.ahead + 1); j < a.keys; ++j)
      p(i, j) = -std::numeric_limits<float>::infinity();
}

void attention_step(OpArrays& c) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const Heads a{c};
  MatrixMap p = scratch(a.queries, a.keys);
  const Array earlier = c.input(3);
  const float* before = earlier ? c.kept(0) : nullptr;
  float* after = c.kept(earlier ? 1 : 0);
  for (std::int64_t b = 0; b < a.batch; ++b)
    for (std::int64_t h = 0; h < a.heads; ++h) {
      auto out = a.head(c.out[0].data, b, h, a.heads, a.queries, a.value_size);
      if (earlier)
        out = a.head(earlier.data, b, h, a.heads, a.queries, a.value_size);
      else
        out.setZero();
      step_scores(c, a, b, h, p);
      for (std::int64_t i = 0; i < a.queries; ++i) {
        const std::int64_t row = (b * a.heads + h) * a.queries + i;
        const float known = before ? before[row] : kNone, most = std::max(known, p.row(i).maxCoeff());
        if (!std::isfinite(most)) {  // no key is visible yet
          after[row] = kNone;
          p.row(i).setZero();
          continue;
        }
        const float sum = most + std::log(std::exp(known - most) + (p.row(i).array() - most).exp().sum());
        after[row] = sum;
        out.row(i) *= std::exp(known - sum);
        p.row(i) = (p.row(i).array() - sum).exp();
      }
      out.noalias() += p * a.head(c.in[2].data, b, a.partner(h), a.shared, a.keys, a.value_size);
    }
}

void attention_step_backward(OpArrays& c) {
  const Heads a{c};
  MatrixMap p = scratch(a.queries, a.keys);
  const MatrixMap dp = scratch(a.queries, a.keys);
  for (std::size_t i = 0; i < 3; ++i)
    if (c.wants(i)) std::fill_n(c.dx[i].data, c.dx[i].size(), 0.0F);
  if (const Array earlier = c.input(3); earlier && c.wants(0)) std::copy_n(earlier.data, earlier.size(), c.dx[0].data);
  for (std::int64_t b = 0; b < a.batch; ++b)
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const auto dy = a.head(c.dy[0].data, b, h, a.heads, a.queries, a.value_size);
      const auto y = a.head(c.out[0].data, b, h, a.heads, a.queries, a.value_size);
      step_scores(c, a, b, h, p);
      for (std::int64_t i = 0; i < a.queries; ++i)
        p.row(i) = (p.row(i).array() - c.kept()[(b * a.heads + h) * a.queries + i]).exp();
      add_gradients(c, a, b, h, p, dp, [&](std::int64_t i) { return dy.row(i).dot(y.row(i)); });
    }
}

constexpr OpKernels kAttention[] = {{"Attention", attention, attention_backward},
                                    {"AttentionStep", attention_step, attention_step_backward}};

}  // namespace

std::span<const OpKernels> attention_kernels() { return kAttention; }

}  // namespace trainyard::cpu
