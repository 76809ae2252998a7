#include <algorithm>
#include <cmath>

#include "profiler/kernels/cpu/kernel_tables.hpp"

namespace trainyard::cpu {
namespace {

/// Log of the sum of exponentials of a line.
float log_sum(const Lines& lines, const float* x) {
  float most = x[0];
  for (std::size_t i = 1; i < lines.length; ++i) most = std::max(most, x[i * lines.step]);
  float sum = 0;
  for (std::size_t i = 0; i < lines.length; ++i) sum += std::exp(x[i * lines.step] - most);
  return most + std::log(sum);
}

void softmax(OpArrays& c) {
  const Lines lines = lines_along_axis(c, -1);
  lines.each([&](std::size_t, std::size_t at) {
    const float* x = c.in[0].data + at;
    float* y = c.out[0].data + at;
    float most = x[0], sum = 0;
    for (std::size_t i = 1; i < lines.length; ++i) most = std::max(most, x[i * lines.step]);
    for (std::size_t i = 0; i < lines.length; ++i) sum += y[i * lines.step] = std::exp(x[i * lines.step] - most);
    for (std::size_t i = 0; i < lines.length; ++i) y[i * lines.step] /= sum;
  });
}

void softmax_backward(OpArrays& c) {
  const Lines lines = lines_along_axis(c, -1);
  lines.each([&](std::size_t, std::size_t at) {
    const float *y = c.out[0].data + at, *dy = c.dy[0].data + at;
    float dot = 0;
    for (std::size_t i = 0; i < lines.length; ++i) dot += y[i * lines.step] * dy[i * lines.step];
    for (std::size_t i = 0; i < lines.length; ++i)
      c.dx[0].data[at + i * lines.step] = y[i * lines.step] * (dy[i * lines.step] - dot);
  });
}

void log_softmax(OpArrays& c) {
  const Lines lines = lines_along_axis(c, -1);
  lines.each([&](std::size_t, std::size_t at) {
    const float whole = log_sum(lines, c.in[0].data + at);
    for (std::size_t i = 0; i < lines.length; ++i)
      c.out[0].data[at + i * lines.step] = c.in[0].data[at + i * lines.step] - whole;
  });
}

void log_softmax_backward(OpArrays& c) {
  const Lines lines = lines_along_axis(c, -1);
  lines.each([&](std::size_t, std::size_t at) {
    const float *y = c.out[0].data + at, *dy = c.dy[0].data + at;
    float sum = 0;
    for (std::size_t i = 0; i < lines.length; ++i) sum += dy[i * lines.step];
    for (std::size_t i = 0; i < lines.length; ++i)
      c.dx[0].data[at + i * lines.step] = dy[i * lines.step] - std::exp(y[i * lines.step]) * sum;
  });
}

// Cross-entropy of logits against integer labels.

struct Classes {
  Lines lines;
  bool mean = true, sum = false;

  explicit Classes(const OpArrays& c) : lines(class_lines(c)) {
    const std::string reduction = c.node.text("reduction", "mean");
    mean = reduction == "mean", sum = reduction == "sum";
  }
  std::size_t label(const OpArrays& c, std::size_t line) const {
    const auto given = static_cast<std::int64_t>(c.in[1].data[line]);
    return static_cast<std::size_t>(std::clamp<std::int64_t>(given, 0, static_cast<std::int64_t>(lines.length) - 1));
  }
  float count() const { return static_cast<float>(lines.count()); }
};

/// Losses of all lines by `log_probability(first element of the line, label)`, reduced as the node asks.
template <class F>
void losses(const OpArrays& c, const Classes& classes, F&& log_probability) {
  double total = 0;
  classes.lines.each([&](std::size_t line, std::size_t at) {
    const float loss = -log_probability(at, classes.label(c, line));
    total += loss;
    if (!classes.mean && !classes.sum) c.out[0].data[line] = loss;
  });
  if (classes.mean) c.out[0].data[0] = static_cast<float>(total / classes.count());
  if (classes.sum) c.out[0].data[0] = static_cast<float>(total);
}

void cross_entropy(OpArrays& c) {
  const Classes classes{c};
  const std::size_t step = classes.lines.step;
  float* kept = c.kept();
  losses(c, classes, [&](std::size_t at, std::size_t label) {
    const float* x = c.in[0].data + at;
    const float whole = log_sum(classes.lines, x);
    for (std::size_t i = 0; kept && i < classes.lines.length; ++i) kept[at + i * step] = x[i * step] - whole;
    if (c.out.size() > 1 && c.out[1])
      for (std::size_t i = 0; i < classes.lines.length; ++i) c.out[1].data[at + i * step] = x[i * step] - whole;
    return x[label * step] - whole;
  });
}

float loss_gradient(const OpArrays& c, const Classes& classes, std::size_t line) {
  if (c.dy.empty() || !c.dy[0]) return 1 / (classes.mean ? classes.count() : 1.0F);
  if (classes.mean) return c.dy[0].data[0] / classes.count();
  return classes.sum ? c.dy[0].data[0] : c.dy[0].data[line];
}

void cross_entropy_backward(OpArrays& c) {
  const Classes classes{c};
  const float* kept = c.kept();
  classes.lines.each([&](std::size_t line, std::size_t at) {
    const float scale = loss_gradient(c, classes, line);
    const std::size_t label = classes.label(c, line);
    for (std::size_t i = 0; i < classes.lines.length; ++i) {
      const std::size_t k = at + i * classes.lines.step;
      c.dx[0].data[k] = scale * (std::exp(kept[k]) - (i == label ? 1.0F : 0.0F));
    }
  });
}

void likelihood(OpArrays& c) {
  const Classes classes{c};
  losses(c, classes, [&](std::size_t at, std::size_t label) { return c.in[0].data[at + label * classes.lines.step]; });
}

void likelihood_backward(OpArrays& c) {
  const Classes classes{c};
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  classes.lines.each([&](std::size_t line, std::size_t at) {
    c.dx[0].data[at + classes.label(c, line) * classes.lines.step] = -loss_gradient(c, classes, line);
  });
}

void hardmax(OpArrays& c) {
  const Lines lines = lines_along_axis(c, -1);
  lines.each([&](std::size_t, std::size_t at) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < lines.length; ++i)
      if (c.in[0].data[at + i * lines.step] > c.in[0].data[at + best * lines.step]) best = i;
    for (std::size_t i = 0; i < lines.length; ++i) c.out[0].data[at + i * lines.step] = i == best ? 1.0F : 0.0F;
  });
}

/// A number in [0, 1) for each element of each op (splitmix64).
float chance(std::uint64_t seed, std::uint64_t element) {
  std::uint64_t z = seed + (element + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<float>((z ^ (z >> 31)) >> 40) * 0x1p-24F;
}

float ratio(const OpArrays& c) { return c.input(1) ? c.in[1].data[0] : static_cast<float>(c.node.real("ratio", 0.5)); }

/// Keeps one byte per element: whether it stays.
void dropout(OpArrays& c) {
  const float drop = ratio(c), scale = 1 / (1 - drop);
  auto* mask = c.extra.empty() ? nullptr : reinterpret_cast<std::uint8_t*>(c.extra[0]);
  const float* x = c.in[0].data;
  for (std::size_t i = 0, n = c.out[0].size(); i < n; ++i) {
    const bool stays = chance(c.seed, c.places.empty() ? i : c.places[i]) >= drop;
    c.out[0].data[i] = stays ? x[i] * scale : 0;
    if (mask) mask[i] = stays ? 1 : 0;
    if (c.out.size() > 1 && c.out[1]) c.out[1].data[i] = stays ? 1.0F : 0.0F;
  }
}

void dropout_backward(OpArrays& c) {
  const float scale = 1 / (1 - ratio(c));
  const auto* mask = reinterpret_cast<const std::uint8_t*>(c.extra[0]);
  for (std::size_t i = 0, n = c.dx[0].size(); i < n; ++i) c.dx[0].data[i] = mask[i] ? c.dy[0].data[i] * scale : 0;
}

constexpr OpKernels kRows[] = {
    {"Softmax", softmax, softmax_backward},
    {"LogSoftmax", log_softmax, log_softmax_backward},
    {"SoftmaxCrossEntropy", cross_entropy, cross_entropy_backward},
    {"SoftmaxCrossEntropyLoss", cross_entropy, cross_entropy_backward},
    {"NegativeLogLikelihoodLoss", likelihood, likelihood_backward},
    {"Hardmax", hardmax, nullptr},
    {"Dropout", dropout, dropout_backward},
};

}  // namespace

std::span<const OpKernels> row_kernels() { return kRows; }

}  // namespace trainyard::cpu
