#include <algorithm>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "trainyard/core/random.hpp"

namespace trainyard::cpu {
namespace {

void constant_of_shape(OpArrays& c) {
  float value = 0;
  if (c.node.has_attribute("value")) {
    const Attribute& given = c.node.attributes.at("value");
    if (const auto* reals = std::get_if<std::vector<double>>(&given); reals && !reals->empty())
      value = static_cast<float>(reals->front());
    else if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&given); whole && !whole->empty())
      value = static_cast<float>(whole->front());
  }
  std::fill_n(c.out[0].data, c.out[0].size(), value);
}

void shape_of(OpArrays& c) {
  const Shape& shape = *c.in[0].shape;
  const auto first = static_cast<std::size_t>(std::max<std::int64_t>(0, c.node.integer("start", 0)));
  for (std::size_t i = 0; i < c.out[0].size(); ++i) c.out[0].data[i] = static_cast<float>(shape[first + i]);
}
void size_of(OpArrays& c) { c.out[0].data[0] = static_cast<float>(c.in[0].size()); }

void range(OpArrays& c) {
  for (std::size_t i = 0; i < c.out[0].size(); ++i)
    c.out[0].data[i] = c.in[0].data[0] + static_cast<float>(i) * c.in[2].data[0];
}

void eye(OpArrays& c) {
  const std::int64_t columns = c.out[0].dim(1), k = c.node.integer("k", 0);
  for (std::size_t i = 0; i < c.out[0].size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    c.out[0].data[i] = at % columns - at / columns == k ? 1.0F : 0.0F;
  }
}

void normal(OpArrays& c) {
  Random random{c.seed};
  const double mean = c.node.real("mean", 0), scale = c.node.real("scale", 1);
  for (std::size_t i = 0; i < c.out[0].size(); ++i)
    c.out[0].data[i] = static_cast<float>(mean + scale * random.normal());
}
void uniform(OpArrays& c) {
  Random random{c.seed};
  const double low = c.node.real("low", 0), high = c.node.real("high", 1);
  for (std::size_t i = 0; i < c.out[0].size(); ++i)
    c.out[0].data[i] = static_cast<float>(low + (high - low) * random.uniform());
}
void bernoulli(OpArrays& c) {
  Random random{c.seed};
  for (std::size_t i = 0; i < c.out[0].size(); ++i)
    c.out[0].data[i] = random.uniform() < static_cast<double>(c.in[0].data[i]) ? 1.0F : 0.0F;
}

constexpr OpKernels kSources[] = {
    {"ConstantOfShape", constant_of_shape, nullptr},
    {"Shape", shape_of, nullptr},
    {"Size", size_of, nullptr},
    {"Range", range, nullptr},
    {"EyeLike", eye, nullptr},
    {"RandomNormal", normal, nullptr},
    {"RandomNormalLike", normal, nullptr},
    {"RandomUniform", uniform, nullptr},
    {"RandomUniformLike", uniform, nullptr},
    {"Bernoulli", bernoulli, nullptr},
};

}  // namespace

std::span<const OpKernels> source_kernels() { return kSources; }

}  // namespace trainyard::cpu
