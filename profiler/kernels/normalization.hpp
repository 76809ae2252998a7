#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/kernels/arrays.hpp"
#include "trainyard/model/op_kind.hpp"

/// Parts of normalizations that all devices share. A forward op keeps the means of all sets, then their factors 1 /
/// sqrt(variance + epsilon). GPU kernels use these sizes, too.
namespace trainyard::kernels {

/// The sets of elements that share a mean: `sets` sets of `runs` runs of `length` elements. Runs lie `step` apart, and
/// set i starts at i x `between`. An element takes the scale of its channel: element / `per_channel` % channels.
struct Sets {
  std::uint64_t sets = 1, runs = 1, length = 1, step = 0, between = 0, channels = 1, per_channel = 1;

  template <class Array>
  explicit Sets(const OpArraysOf<Array>& c) {
    const Shape& x = c.value(c.node.inputs[0]).shape;
    const auto size = static_cast<std::uint64_t>(elements(x));
    const bool batch_norm = c.node.type == "BatchNormalization", instance = c.node.type == "InstanceNormalization";
    if (!batch_norm && !instance && c.node.type != "GroupNormalization") {
      const Lines row{x, axis_at(c.node.integer("axis", -1), x.size())};
      length = row.length * row.step;
      sets = size / length, between = length, channels = length;
      return;
    }
    const auto batch = static_cast<std::uint64_t>(x[0]);
    channels = x.size() > 1 ? static_cast<std::uint64_t>(x[1]) : 1;
    const std::uint64_t plane = size / (batch * channels);
    per_channel = plane;
    if (batch_norm) {
      sets = channels, runs = batch, length = plane, step = channels * plane, between = plane;
      return;
    }
    const auto groups = instance ? channels : static_cast<std::uint64_t>(c.node.integer("num_groups", 1));
    sets = batch * groups, length = plane * channels / groups, between = length;
    const ValueId scale = input_at(c.node, 1);  // one per channel, or one per group
    if (!scale.is_none() && element_count(c.value(scale)) == static_cast<std::int64_t>(groups))
      channels = groups, per_channel = length;
  }
  std::size_t count() const { return runs * length; }
  template <class F>
  void each(std::size_t set, F&& f) const {
    for (std::size_t run = 0; run < runs; ++run) {
      const std::size_t first = set * between + run * step;
      for (std::size_t i = first; i < first + length; ++i) f(i);
    }
  }
  std::size_t channel(std::size_t element) const { return element / per_channel % channels; }
};

inline float epsilon(const Node& node) { return static_cast<float>(node.real("epsilon", 1e-5)); }
inline bool centred(const Node& node) {
  return node.type != "RMSNormalization" && node.type != "SimplifiedLayerNormalization";
}
/// Whether a forward op keeps its statistics; the gradients of other operators recompute them.
inline bool keeps_statistics(const Node& node) {
  return node.type == "BatchNormalization" || node.type == "LayerNormalization";
}
/// Whether statistics are given: for a batch norm that does not use its batch's.
inline bool fixed_statistics(const Model& model, const Node& node) {
  return node.type == "BatchNormalization" && !uses_batch_statistics(model, node);
}

}  // namespace trainyard::kernels
