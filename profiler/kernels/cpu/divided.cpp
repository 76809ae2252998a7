// Operators that are divided among ranks (rewrite/recipes/ranked_step.cpp).

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/kernels/cpu/kernel_tables.hpp"

namespace trainyard::cpu {
namespace {

// Cross-entropy with the classes divided among ranks. Each rank reduces a row of logits to three numbers: the largest,
// the sum of exponentials relative to it, and the label's logit, or 0 if another rank holds it.

struct LogitRow {
  float most = -std::numeric_limits<float>::infinity(), sum = 0, label = 0;

  void add(const float* other) {
    const float larger = std::max(most, other[0]);
    sum = sum * std::exp(most - larger) + other[1] * std::exp(other[0] - larger);
    most = larger;
    label += other[2];
  }
  void write(float* to) const { to[0] = most, to[1] = sum, to[2] = label; }
};

/// Position of the row's label among this rank's classes; outside them if another rank holds it.
std::int64_t own_label(const OpArrays& c, std::size_t row) {
  const std::int64_t label =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(c.in[1].data[row]), 0, c.node.integer("classes", 1) - 1);
  return label - c.node.integer("first_class", 0);
}

void cross_entropy_rows(OpArrays& c) {
  const Lines lines{c.value(c.node.inputs[0]).shape, static_cast<std::size_t>(c.node.integer("axis", 0))};
  lines.each([&](std::size_t row, std::size_t at) {
    LogitRow all;
    const std::int64_t label = own_label(c, row);
    for (std::size_t i = 0; i < lines.length; ++i) {
      const float x = c.in[0].data[at + i * lines.step];
      const float one[] = {x, 1, static_cast<std::int64_t>(i) == label ? x : 0};
      all.add(one);
    }
    all.write(c.out[0].data + 3 * row);
  });
}

void cross_entropy_combine(OpArrays& c) {
  for (std::size_t at = 0; at < c.out[0].size(); at += 3) {
    LogitRow all;
    for (const Array& each : c.in) all.add(each.data + at);
    all.write(c.out[0].data + at);
  }
}

/// Inputs: logits, labels, and then the rows' numbers over the classes of all ranks, in parts one after the other.
void cross_entropy_whole(OpArrays& c) {
  const Lines lines{c.value(c.node.inputs[0]).shape, static_cast<std::size_t>(c.node.integer("axis", 0))};
  std::vector<float> wholes;
  double total = 0;
  for (std::size_t part = 2; part < c.in.size(); ++part)
    for (std::size_t at = 0; at < c.in[part].size(); at += 3) {
      const float* row = c.in[part].data + at;
      wholes.push_back(row[0] + std::log(row[1]));
      total += static_cast<double>(wholes.back() - row[2]);
    }
  c.out[0].data[0] = static_cast<float>(total / static_cast<double>(wholes.size()));
  if (float* kept = c.kept())
    lines.each([&](std::size_t row, std::size_t at) {
      for (std::size_t i = 0; i < lines.length; ++i)
        kept[at + i * lines.step] = c.in[0].data[at + i * lines.step] - wholes[row];
    });
}
void cross_entropy_whole_backward(OpArrays& c) {
  const Lines lines{c.value(c.node.inputs[0]).shape, static_cast<std::size_t>(c.node.integer("axis", 0))};
  const float scale = c.dy[0].data[0] / static_cast<float>(lines.count());
  lines.each([&](std::size_t row, std::size_t at) {
    const std::int64_t label = own_label(c, row);
    for (std::size_t i = 0; i < lines.length; ++i) {
      const std::size_t k = at + i * lines.step;
      c.dx[0].data[k] = scale * (std::exp(c.kept()[k]) - (static_cast<std::int64_t>(i) == label ? 1.0F : 0.0F));
    }
  });
}

constexpr OpKernels kDivided[] = {
    {"CrossEntropyRows", cross_entropy_rows, nullptr},
    {"CrossEntropyCombine", cross_entropy_combine, nullptr},
    {"CrossEntropyWhole", cross_entropy_whole, cross_entropy_whole_backward},
};

}  // namespace

std::span<const OpKernels> divided_kernels() { return kDivided; }

}  // namespace trainyard::cpu
