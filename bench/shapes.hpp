#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/graph/graph.hpp"

namespace trainyard::bench {

/// A graph before it has names: every op has one output. Ids are topological.
struct Sketch {
  struct Op {
    std::uint32_t time;   // on the fast devices, ns
    std::uint32_t bytes;  // of its tensor
    std::uint32_t home;   // the device that the shape puts it on
  };
  std::vector<Op> ops;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // (consumer, producer), any order, repeated or not

  std::uint32_t add(std::size_t home, std::uint32_t time = 0, std::uint32_t bytes = 0) {
    ops.push_back({time, bytes, static_cast<std::uint32_t>(home)});
    return static_cast<std::uint32_t>(ops.size() - 1);
  }
  void connect(std::uint32_t producer, std::uint32_t consumer) { edges.emplace_back(consumer, producer); }
};

/// `width` 0: what workloads.hpp says. About `ops` ops; the transformer as many as fill whole layers.
Sketch layered(std::size_t ops, std::size_t devices, std::size_t width);
Sketch branched(std::size_t ops, std::size_t devices, std::size_t width);
Sketch transformer_step(std::size_t ops, std::size_t devices);

/// One FLOP is one nanosecond on the fast devices (workloads.cpp). The sketch's edges are gone afterwards.
Graph build_graph(Sketch& sketch, const std::string& name);

}  // namespace trainyard::bench
