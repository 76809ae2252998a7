#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard::test {

/// Throughput problem written by hand: times and costs in ms, one output tensor per node.
struct LoadSketch {
  struct Node {
    double gpu, cost = 0;  // gpu < 0: cannot run on a GPU
    double cpu = 0;
    bool backward = false;
    int color = -1;  // -1: a color that no other node has
    std::int64_t size = 0;
  };
  std::vector<Node> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  std::size_t gpus = 1, cpus = 0;
  std::int64_t memory = -1;  // bytes of each GPU; -1: unlimited

  LoadProblem problem() const {
    LoadParts parts{.kinds = {{.name = "gpu"}, {.name = "cpu", .pays = false}}};
    if (memory >= 0) parts.kinds[0].memory = Bytes{memory};
    for (std::size_t i = 0; i < gpus; ++i) parts.devices.push_back(KindId{0});
    for (std::size_t i = 0; i < cpus; ++i) parts.devices.push_back(KindId{1});
    std::vector<int> colors;  // node color of each color index
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = nodes[i];
      std::uint32_t color = 0;
      while (color < colors.size() && (node.color < 0 || colors[color] != node.color)) ++color;
      if (color == colors.size()) colors.push_back(node.color < 0 ? -1 - static_cast<int>(i) : node.color);
      parts.ops.push_back(
          {.name = "n" + std::to_string(i), .backward = node.backward, .color = color, .size = Bytes{node.size}});
      parts.times.push_back(node.gpu < 0 ? kNeverLoad : picoseconds_from_milliseconds(node.gpu));
      parts.times.push_back(picoseconds_from_milliseconds(node.cpu));
      parts.tensors.push_back({OpId{i}, {}});
      parts.costs.push_back(picoseconds_from_milliseconds(node.cost));
      parts.costs.push_back(Picoseconds{0});
    }
    for (const auto& [from, to] : edges) parts.tensors[from].consumers.emplace_back(to);
    return LoadProblem{std::move(parts)};
  }
};

inline Picoseconds ms(double milliseconds) { return picoseconds_from_milliseconds(milliseconds); }

/// The diamond of section 6.6: a before b and c, both before d.
inline LoadSketch diamond(std::size_t gpus) {
  return {.nodes = {{.gpu = 2, .cost = 1}, {.gpu = 4, .cost = .5}, {.gpu = 3, .cost = .5}, {.gpu = 1}},
          .edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}},
          .gpus = gpus};
}

/// Random problem with small whole numbers, so that ties are frequent. With `training`, most forward ops get one
/// backward op, with the edges reversed. Some ops share a color, run on CPUs only, or do not fit together in memory.
inline LoadSketch random_sketch(Random& random, std::size_t most_forward, bool training) {
  LoadSketch sketch;
  const auto count = static_cast<std::size_t>(random.between(1, static_cast<std::int64_t>(most_forward)));
  sketch.gpus = static_cast<std::size_t>(random.between(1, 3));
  sketch.cpus = static_cast<std::size_t>(random.between(0, 1));
  const auto node = [&](bool backward) {
    return LoadSketch::Node{.gpu = static_cast<double>(random.between(0, 9)),
                            .cost = static_cast<double>(random.between(0, 4)),
                            .cpu = static_cast<double>(random.between(0, 20)),
                            .backward = backward,
                            .size = random.between(0, 9)};
  };
  for (std::size_t i = 0; i < count; ++i) {
    sketch.nodes.push_back(node(false));
    sketch.nodes.back().color = static_cast<int>(random.below(8) == 0 && i > 0 ? random.below(i) : i);
    if (sketch.cpus > 0 && random.below(8) == 0) sketch.nodes.back().gpu = -1;
    for (std::size_t j = 0; j < i; ++j)
      if (random.below(count) < 2) sketch.edges.emplace_back(j, i);
  }
  if (training) {
    const std::size_t forward_edges = sketch.edges.size();
    std::vector<std::size_t> mate(count, 0);
    for (std::size_t i = count; i-- > 0;) {
      if (random.below(6) == 0) continue;
      mate[i] = sketch.nodes.size();
      sketch.nodes.push_back(node(true));
      // An occasional orphan: a backward op whose color no forward op has.
      sketch.nodes.back().color = random.below(8) == 0 ? 100 + static_cast<int>(i) : sketch.nodes[i].color;
      if (random.below(2)) sketch.edges.emplace_back(i, mate[i]);
    }
    for (std::size_t e = 0; e < forward_edges; ++e) {
      const auto [from, to] = sketch.edges[e];
      if (mate[from] > 0 && mate[to] > 0) sketch.edges.emplace_back(mate[to], mate[from]);
    }
  }
  if (random.below(3) == 0) sketch.memory = random.between(5, 30);
  return sketch;
}

}  // namespace trainyard::test
