#include <algorithm>
#include <cmath>
#include <vector>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/cpu/matrix.hpp"

namespace trainyard::cpu {
namespace {

/// GRU and RNN of S steps, batch B, I inputs, H hidden units, D directions, G gates: X [S, B, I], W [D, G H, I], R [D,
/// G H, H], b [D, 2 G H]; no clipping, full sequences. GRU has the gates z, r, h in this order:
///
///     z = s(Wz x + Rz h + bz), r = s(Wr x + Rr h + br), h' = z h + (1 - z) n
///     n = tanh(Wn x + Rn (r h) + bn), or with linear_before_reset tanh(Wn x + wn + r (Rn h + rn))
///
/// RNN: h' = tanh(W x + R h + b), or Relu. Kept for each direction, step, row and unit, in G + 3 slots as LSTM's: z, r,
/// n, q = Rn h + rn, h' for GRU; h' for RNN. The other slots are not used.
struct Gated {
  std::int64_t steps, batch, inputs, hidden, directions, gates, slots;
  std::string direction;
  bool linear_first, relu;

  explicit Gated(const OpArrays& c) {
    const Shape &x = c.value(c.node.inputs[0]).shape, &r = c.value(c.node.inputs[2]).shape;
    steps = x[0], batch = x[1], inputs = x[2], directions = r[0], hidden = r[2];
    gates = c.node.type == "GRU" ? 3 : 1, slots = gates + 3;
    direction = c.node.text("direction", "forward");
    linear_first = c.node.integer("linear_before_reset", 0) != 0;
    relu = activations(c.node) == "Relu";
  }
  static std::string activations(const Node& node) {
    const auto given = node.attributes.find("activations");
    if (given == node.attributes.end()) return "";
    const auto* names = std::get_if<std::vector<std::string>>(&given->second);
    return names && !names->empty() ? names->front() : "";
  }
  std::int64_t cell() const { return batch * hidden; }
  std::int64_t time(std::int64_t d, std::int64_t step) const {
    return d == 1 || direction == "reverse" ? steps - 1 - step : step;
  }
  float* kept(float* all, std::int64_t d, std::int64_t step, std::int64_t which) const {
    return all + ((d * steps + step) * slots + which) * cell();
  }
  std::int64_t state() const { return gates == 3 ? 4 : 0; }
  MatrixMap w(const OpArrays& c, std::int64_t d, std::int64_t gate, std::int64_t count = 1) const {
    return matrix(c.in[1].data + (d * gates + gate) * hidden * inputs, count * hidden, inputs);
  }
  MatrixMap r(const OpArrays& c, std::int64_t d, std::int64_t gate, std::int64_t count = 1) const {
    return matrix(c.in[2].data + (d * gates + gate) * hidden * hidden, count * hidden, hidden);
  }
  /// Bias on W's side, or on R's.
  float bias(const OpArrays& c, std::int64_t d, std::int64_t gate, bool recurrent, std::int64_t unit) const {
    return c.input(3) ? c.in[3].data[(d * 2 + (recurrent ? 1 : 0)) * gates * hidden + gate * hidden + unit] : 0.0F;
  }
  MatrixMap x(const OpArrays& c, std::int64_t t) const {
    return matrix(c.in[0].data + t * batch * inputs, batch, inputs);
  }
};

void gru_step(const OpArrays& c, const Gated& g, std::int64_t d, std::int64_t t, float* before, float* all,
              std::int64_t s) {
  const std::int64_t h = g.hidden;
  float* zr = Scratch::floats(static_cast<std::size_t>(g.batch * 2 * h));
  float* n = Scratch::floats(static_cast<std::size_t>(g.cell()));
  float* reset = Scratch::floats(static_cast<std::size_t>(g.cell()));
  MatrixMap gates = matrix(zr, g.batch, 2 * h), candidate = matrix(n, g.batch, h);
  multiply(g.x(c, t), false, g.w(c, d, 0, 2), true, gates, false);
  multiply(matrix(before, g.batch, h), false, g.r(c, d, 0, 2), true, gates, true);
  multiply(g.x(c, t), false, g.w(c, d, 2), true, candidate, false);
  float *z = g.kept(all, d, s, 0), *r = g.kept(all, d, s, 1), *q = g.kept(all, d, s, 3);
  const auto each = [&](auto&& f) {
    for (std::int64_t b = 0; b < g.batch; ++b)
      for (std::int64_t u = 0; u < h; ++u) f(b, u, b * h + u);
  };
  each([&](std::int64_t b, std::int64_t u, std::int64_t at) {
    z[at] = sigmoid(zr[b * 2 * h + u] + g.bias(c, d, 0, false, u) + g.bias(c, d, 0, true, u));
    r[at] = sigmoid(zr[b * 2 * h + h + u] + g.bias(c, d, 1, false, u) + g.bias(c, d, 1, true, u));
    reset[at] = g.linear_first ? before[at] : r[at] * before[at];
  });
  multiply(matrix(reset, g.batch, h), false, g.r(c, d, 2), true, matrix(q, g.batch, h), false);
  float *kept_n = g.kept(all, d, s, 2), *out = g.kept(all, d, s, 4);
  each([&](std::int64_t, std::int64_t u, std::int64_t at) {
    q[at] += g.bias(c, d, 2, true, u);
    kept_n[at] = std::tanh(n[at] + g.bias(c, d, 2, false, u) + (g.linear_first ? r[at] * q[at] : q[at]));
    out[at] = z[at] * before[at] + (1 - z[at]) * kept_n[at];
  });
}

void rnn_step(const OpArrays& c, const Gated& g, std::int64_t d, std::int64_t t, float* before, float* all,
              std::int64_t s) {
  float* out = g.kept(all, d, s, 0);
  MatrixMap sums = matrix(out, g.batch, g.hidden);
  multiply(g.x(c, t), false, g.w(c, d, 0), true, sums, false);
  multiply(matrix(before, g.batch, g.hidden), false, g.r(c, d, 0), true, sums, true);
  for (std::int64_t at = 0; at < g.cell(); ++at) {
    const float sum = out[at] + g.bias(c, d, 0, false, at % g.hidden) + g.bias(c, d, 0, true, at % g.hidden);
    out[at] = g.relu ? std::max(0.0F, sum) : std::tanh(sum);
  }
}

void gated(OpArrays& c) {
  const Gated g{c};
  float* all = c.kept();
  if (!all) all = Scratch::floats(static_cast<std::size_t>(g.directions * g.steps * g.slots * g.cell()));
  std::vector<float> zeros(static_cast<std::size_t>(g.cell()), 0.0F);
  for (std::int64_t d = 0; d < g.directions; ++d) {
    float* before = c.input(5) ? c.in[5].data + d * g.cell() : zeros.data();
    for (std::int64_t s = 0; s < g.steps; ++s) {
      const std::int64_t t = g.time(d, s);
      (g.gates == 3 ? gru_step : rnn_step)(c, g, d, t, before, all, s);
      before = g.kept(all, d, s, g.state());
      if (c.out[0]) std::copy_n(before, g.cell(), c.out[0].data + (t * g.directions + d) * g.cell());
    }
    if (c.out.size() > 1 && c.out[1]) std::copy_n(before, g.cell(), c.out[1].data + d * g.cell());
  }
}

/// Adds the gradients on W's side from `a` [B, count H], the gradient before the activations of the gates from `gate`
/// on.
void back_to_input(const OpArrays& c, const Gated& g, std::int64_t d, std::int64_t t, float* a, std::int64_t gate,
                   std::int64_t count) {
  const MatrixMap sums = matrix(a, g.batch, count * g.hidden);
  if (c.wants(0))
    multiply(sums, false, g.w(c, d, gate, count), false,
             matrix(c.dx[0].data + t * g.batch * g.inputs, g.batch, g.inputs), true);
  if (c.wants(1))
    multiply(sums, true, g.x(c, t), false,
             matrix(c.dx[1].data + (d * g.gates + gate) * g.hidden * g.inputs, count * g.hidden, g.inputs), true);
  if (c.wants(3))
    column(c.dx[3].data + (d * 2 * g.gates + gate) * g.hidden, count * g.hidden) += sums.colwise().sum().transpose();
}

/// Adds the gradients on R's side, which reads `source`; `to` += a R.
void back_to_state(const OpArrays& c, const Gated& g, std::int64_t d, float* a, std::int64_t gate, std::int64_t count,
                   float* source, float* to) {
  const MatrixMap sums = matrix(a, g.batch, count * g.hidden);
  multiply(sums, false, g.r(c, d, gate, count), false, matrix(to, g.batch, g.hidden), true);
  if (c.wants(2))
    multiply(sums, true, matrix(source, g.batch, g.hidden), false,
             matrix(c.dx[2].data + (d * g.gates + gate) * g.hidden * g.hidden, count * g.hidden, g.hidden), true);
  if (c.wants(3))
    column(c.dx[3].data + (d * 2 * g.gates + g.gates + gate) * g.hidden, count * g.hidden) +=
        sums.colwise().sum().transpose();
}

/// Turns dh into the gradient of the state before the step.
void gru_step_back(const OpArrays& c, const Gated& g, std::int64_t d, std::int64_t t, float* before, float* all,
                   std::int64_t s, std::vector<float>& dh) {
  const std::int64_t h = g.hidden;
  const auto count = static_cast<std::size_t>(g.cell());
  const float *z = g.kept(all, d, s, 0), *r = g.kept(all, d, s, 1), *n = g.kept(all, d, s, 2),
              *q = g.kept(all, d, s, 3);
  std::vector<float> zr(2 * count), an(count), aq(count), reset(count), dreset(count, 0.0F), next(count);
  for (std::size_t i = 0; i < count; ++i) {
    an[i] = dh[i] * (1 - z[i]) * (1 - n[i] * n[i]);
    aq[i] = g.linear_first ? an[i] * r[i] : an[i];
    reset[i] = g.linear_first ? before[i] : r[i] * before[i];
    next[i] = dh[i] * z[i];
  }
  back_to_input(c, g, d, t, an.data(), 2, 1);
  back_to_state(c, g, d, aq.data(), 2, 1, reset.data(), dreset.data());
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto row = static_cast<std::size_t>(at / h * 2 * h + at % h);
    const float dr = g.linear_first ? an[i] * q[i] : dreset[i] * before[i];
    next[i] += g.linear_first ? dreset[i] : dreset[i] * r[i];
    zr[row] = dh[i] * (before[i] - n[i]) * z[i] * (1 - z[i]);
    zr[row + static_cast<std::size_t>(h)] = dr * r[i] * (1 - r[i]);
  }
  back_to_input(c, g, d, t, zr.data(), 0, 2);
  back_to_state(c, g, d, zr.data(), 0, 2, before, next.data());
  dh = std::move(next);
}

void rnn_step_back(const OpArrays& c, const Gated& g, std::int64_t d, std::int64_t t, float* before, float* all,
                   std::int64_t s, std::vector<float>& dh) {
  const float* out = g.kept(all, d, s, 0);
  for (std::size_t i = 0; i < dh.size(); ++i) dh[i] *= g.relu ? (out[i] > 0 ? 1.0F : 0.0F) : 1 - out[i] * out[i];
  std::vector<float> next(dh.size(), 0.0F);
  back_to_input(c, g, d, t, dh.data(), 0, 1);
  back_to_state(c, g, d, dh.data(), 0, 1, before, next.data());
  dh = std::move(next);
}

void gated_backward(OpArrays& c) {
  const Gated g{c};
  float* all = c.kept();
  for (Array& dx : c.dx)
    if (dx) std::fill(dx.data, dx.data + dx.size(), 0.0F);
  const auto count = static_cast<std::size_t>(g.cell());
  std::vector<float> zeros(count, 0.0F), dh(count);
  const auto gradient = [&](std::size_t i) { return i < c.dy.size() ? c.dy[i] : Array{}; };
  for (std::int64_t d = 0; d < g.directions; ++d) {
    std::fill(dh.begin(), dh.end(), 0.0F);
    if (gradient(1)) std::copy_n(gradient(1).data + d * g.cell(), g.cell(), dh.data());
    for (std::int64_t s = g.steps; s-- > 0;) {
      const std::int64_t t = g.time(d, s);
      if (gradient(0))
        for (std::size_t i = 0; i < count; ++i)
          dh[i] += gradient(0).data[(t * g.directions + d) * g.cell() + static_cast<std::int64_t>(i)];
      float* first = c.input(5) ? c.in[5].data + d * g.cell() : zeros.data();
      float* before = s == 0 ? first : g.kept(all, d, s - 1, g.state());
      (g.gates == 3 ? gru_step_back : rnn_step_back)(c, g, d, t, before, all, s, dh);
    }
    if (c.wants(5)) std::copy_n(dh.data(), g.cell(), c.dx[5].data + d * g.cell());
  }
}

constexpr OpKernels kGated[] = {{"GRU", gated, gated_backward}, {"RNN", gated, gated_backward}};

}  // namespace

std::span<const OpKernels> gated_kernels() { return kGated; }

}  // namespace trainyard::cpu
