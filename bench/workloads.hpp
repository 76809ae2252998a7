#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::bench {

/// A graph and the placement that it was made for.
struct PlacedGraph {
  Graph graph;
  Placement placement;
};

/// L: layers of max(32, 2 devices) ops; an op reads 1 to 3 tensors of the layer before (one in ten of the layer before
/// that), 35 % of them from another device. 3 to 300 us, 0.1 to 10 MB.
PlacedGraph layered(std::size_t ops, std::size_t devices, Random& random, std::size_t width = 0);
/// B: a chain of forks into max(4, 2 devices) branches of 2 to 6 ops, joined again.
PlacedGraph branched(std::size_t ops, std::size_t devices, Random& random);
/// T: a transformer's training step, forward and backward, by layers, microbatches, tensor shards (up to 4), pipeline
/// stages (up to 8) and replicas; ops of one kind take the same time, so that ties abound. About `ops` ops.
PlacedGraph transformer(std::size_t ops, std::size_t devices);

enum class Links {
  pairs,     // a full-duplex link per pair of devices: every channel has one sender
  egresses,  // an egress per device
  switched,  // a link to a switch per device: a transfer holds two channels, which several devices feed
};
Problem make_problem(const Graph& graph, std::size_t devices, Links links);

/// Many schedules of one problem, because a processor learns the branches of one that is repeated: the placement with a
/// share of the ops moved at random.
std::vector<Schedule> placements(const PlacedGraph& placed, std::size_t devices, std::size_t count, double moved,
                                 Random& random);
/// The same with the order of their fifo simulation as a strict order, or with random priorities.
std::vector<Schedule> with_strict_orders(const Problem& problem, std::vector<Schedule> schedules);
std::vector<Schedule> with_priorities(std::vector<Schedule> schedules, Random& random);

}  // namespace trainyard::bench
