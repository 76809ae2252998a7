#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/graph/graph.hpp"

namespace trainyard::bench {

/// A graph without names. Each op has one output, and ids are in topological order.
struct Sketch {
  struct Op {
    std::uint32_t time;   // on the fast devices, ns
    std::uint32_t bytes;  // of its output
    std::uint32_t home;   // the device where the shape places it
  };
  std::vector<Op> ops;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // (consumer, producer), in any order, maybe repeated

  std::uint32_t add(std::size_t home, std::uint32_t time = 0, std::uint32_t bytes = 0) {
    ops.push_back({time, bytes, static_cast<std::uint32_t>(home)});
    return static_cast<std::uint32_t>(ops.size() - 1);
  }
  void connect(std::uint32_t producer, std::uint32_t consumer) { edges.emplace_back(consumer, producer); }
};

/// Sketches of about `ops` ops. `width` 0 is the default of workloads.hpp. The transformer has whole layers only.
Sketch layered(std::size_t ops, std::size_t devices, std::size_t width);
Sketch branched(std::size_t ops, std::size_t devices, std::size_t width);
Sketch transformer_step(std::size_t ops, std::size_t devices);

/// Builds the graph of a sketch and consumes its edges. A FLOP takes a nanosecond on the fast devices (workloads.cpp).
Graph build_graph(Sketch& sketch, const std::string& name);

}  // namespace trainyard::bench
