#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard::test {

/// A graph of layers of 1 to 4 ops of 2 to 20 ns. Each op has one or two producers in the layer before, and a few have
/// one beyond. Every edge is a tensor of its own, of 1 to 12 bytes.
inline Graph layered_graph(std::size_t ops, std::uint64_t seed) {
  Random random = Random::stream(seed, ops);
  std::vector<OpSpec> specs(ops);
  std::vector<std::vector<std::size_t>> layers;
  for (std::size_t at = 0; at < ops; at += layers.back().size()) {
    const std::size_t width = layers.empty() ? 1 : std::min(ops - at, std::size_t{1} + random.below(4));
    layers.emplace_back();
    for (std::size_t i = 0; i < width; ++i) layers.back().push_back(at + i);
  }
  const auto join = [&](std::size_t from, std::size_t to) {
    const std::string name = std::to_string(from) + "-" + std::to_string(to);
    if (std::ranges::find(specs[to].inputs, name) != specs[to].inputs.end()) return;
    specs[from].outputs.push_back({name, Bytes{random.between(1, 12)}});
    specs[to].inputs.push_back(name);
  };
  for (std::size_t i = 0; i < ops; ++i) {
    specs[i].name = std::to_string(i);
    specs[i].times = {{"gpu", Nanoseconds{random.between(2, 20)}}};
  }
  for (std::size_t k = 1; k < layers.size(); ++k) {
    for (const std::size_t op : layers[k])
      for (std::uint64_t n = random.below(3) == 0 ? 2 : 1; n-- > 0;)
        join(layers[k - 1][random.below(layers[k - 1].size())], op);
    for (const std::size_t op : layers[k - 1])
      if (specs[op].outputs.empty()) join(op, layers[k][random.below(layers[k].size())]);
    if (k > 1 && random.chance(0.3))
      join(layers[k - 2][random.below(layers[k - 2].size())], layers[k][random.below(layers[k].size())]);
  }
  GraphBuilder builder{"layered"};
  for (OpSpec& spec : specs) builder.add(std::move(spec));
  return std::move(builder).build();
}

}  // namespace trainyard::test
