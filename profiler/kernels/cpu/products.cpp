#include "profiler/kernels/products.hpp"

#include <algorithm>

#include "profiler/kernels/cpu/broadcast.hpp"
#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/cpu/matrix.hpp"

namespace trainyard::cpu {
namespace {

void add_rows(const Array& to, const Array& bias) {
  const std::int64_t columns = static_cast<std::int64_t>(bias.size());
  matrix(to.data, static_cast<std::int64_t>(to.size()) / columns, columns).rowwise() +=
      column(bias.data, columns).transpose();
}

void sum_rows(const float* from, std::int64_t rows, const Array& to) {
  const std::int64_t columns = static_cast<std::int64_t>(to.size());
  column(to.data, columns) = matrix(const_cast<float*>(from), rows, columns).colwise().sum().transpose();
}

// Linear: x [.., K], weight [K, N], bias [N].

void linear(OpArrays& c) {
  const Array &x = c.in[0], &w = c.in[1], &y = c.out[0];
  const std::int64_t m = rows_of(*x.shape);
  multiply(matrix(x.data, m, w.dim(0)), false, matrix(w.data, w.dim(0), w.dim(1)), false, matrix(y.data, m, w.dim(1)),
           false);
  if (c.input(2)) add_rows(y, c.in[2]);
}

void linear_backward(OpArrays& c) {
  const Array& dy = c.dy[0];
  const std::int64_t n = dy.shape->back(), m = rows_of(*dy.shape);
  const MatrixMap g = matrix(dy.data, m, n);
  if (c.wants(0)) {
    const std::int64_t k = c.in[1].dim(0);
    multiply(g, false, matrix(c.in[1].data, k, n), true, matrix(c.dx[0].data, m, k), false);
  }
  if (c.wants(1)) {
    const std::int64_t k = c.dx[1].dim(0);
    multiply(matrix(c.in[0].data, m, k), true, g, false, matrix(c.dx[1].data, k, n), false);
  }
  if (c.wants(2)) sum_rows(dy.data, m, c.dx[2]);
}

// Gemm: alpha A' B' + beta C.

struct GemmNumbers {
  float alpha, beta;
  bool turn_a, turn_b;

  explicit GemmNumbers(const Node& node)
      : alpha(static_cast<float>(node.real("alpha", 1))),
        beta(static_cast<float>(node.real("beta", 1))),
        turn_a(node.integer("transA", 0) != 0),
        turn_b(node.integer("transB", 0) != 0) {}
};

MatrixMap map_of(const Array& x) { return matrix(x.data, x.dim(0), x.dim(1)); }

void gemm(OpArrays& c) {
  const GemmNumbers n{c.node};
  const Array& y = c.out[0];
  multiply(map_of(c.in[0]), n.turn_a, map_of(c.in[1]), n.turn_b, map_of(y), false);
  if (n.alpha != 1) map_of(y) *= n.alpha;
  if (!c.input(2)) return;
  const Array& bias = c.in[2];
  if (n.beta == 1 && static_cast<std::int64_t>(bias.size()) == y.dim(1)) return add_rows(y, bias);
  each_broadcast(*y.shape, *bias.shape, [&](std::size_t i, std::size_t at) { y.data[i] += n.beta * bias.data[at]; });
}

void gemm_backward(OpArrays& c) {
  const GemmNumbers n{c.node};
  const MatrixMap g = map_of(c.dy[0]);
  if (c.wants(0)) {  // A' = A: dA = g B'^T; A' = A^T: dA = B' g^T
    const MatrixMap b = map_of(c.in[1]);
    if (n.turn_a)
      multiply(b, n.turn_b, g, true, map_of(c.dx[0]), false);
    else
      multiply(g, false, b, !n.turn_b, map_of(c.dx[0]), false);
    if (n.alpha != 1) map_of(c.dx[0]) *= n.alpha;
  }
  if (c.wants(1)) {
    const MatrixMap a = map_of(c.in[0]);
    if (n.turn_b)
      multiply(g, true, a, n.turn_a, map_of(c.dx[1]), false);
    else
      multiply(a, !n.turn_a, g, false, map_of(c.dx[1]), false);
    if (n.alpha != 1) map_of(c.dx[1]) *= n.alpha;
  }
  if (c.wants(2)) {
    sum_to_shape(c.dy[0].data, *c.dy[0].shape, c.dx[2]);
    if (n.beta != 1)
      for (std::size_t i = 0; i < c.dx[2].size(); ++i) c.dx[2].data[i] *= n.beta;
  }
}

void matmul(OpArrays& c) {
  const BatchedShape s{*c.in[0].shape, *c.in[1].shape};
  s.each([&](std::int64_t i, std::int64_t a, std::int64_t b) {
    multiply(matrix(c.in[0].data + a, s.m, s.k), false, matrix(c.in[1].data + b, s.k, s.n), false,
             matrix(c.out[0].data + i * s.m * s.n, s.m, s.n), false);
  });
}

void matmul_backward(OpArrays& c) {
  const BatchedShape s{c.value(c.node.inputs[0]).shape, c.value(c.node.inputs[1]).shape};
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (!c.wants(side)) continue;
    const Array& dx = c.dx[side];
    std::fill(dx.data, dx.data + dx.size(), 0.0F);
    s.each([&](std::int64_t i, std::int64_t a, std::int64_t b) {
      const MatrixMap g = matrix(c.dy[0].data + i * s.m * s.n, s.m, s.n);
      if (side == 0)
        multiply(g, false, matrix(c.in[1].data + b, s.k, s.n), true, matrix(dx.data + a, s.m, s.k), true);
      else
        multiply(matrix(c.in[0].data + a, s.m, s.k), true, g, false, matrix(dx.data + b, s.k, s.n), true);
    });
  }
}

constexpr OpKernels kProducts[] = {
    {"Linear", linear, linear_backward},
    {"Gemm", gemm, gemm_backward},
    {"MatMul", matmul, matmul_backward},
};

}  // namespace

std::span<const OpKernels> product_kernels() { return kProducts; }

}  // namespace trainyard::cpu
