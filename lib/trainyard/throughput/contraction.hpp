#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// A block, the unit of contiguous splits: forward ops on one device, and the backward ops that follow them there.
using BlockId = Id<struct LoadBlockTag>;

struct BlockTensor {
  BlockId producer;
  std::vector<BlockId> consumers;  // without the producer, ascending
  bool backward = false;           // the pass of its producer
};

/// A LoadProblem contracted for contiguous splits: blocks, and a graph of the forward pass over them. A split can cut
/// at each downward closed set (ideal) of that graph. Blocks are numbered in a topological order of the graph.
struct Contraction {
  std::vector<std::vector<OpId>> ops;             // of each block, both passes, ascending; may be empty
  CompressedRows<BlockId, BlockId> predecessors;  // in the forward graph, ascending; artificial edges included
  CompressedRows<BlockId, BlockId> successors;
  std::vector<Picoseconds> forward, backward;  // blocks x kinds; both kNeverLoad if an op of the block cannot run
  std::vector<Bytes> sizes;
  std::vector<BlockTensor> tensors;  // between blocks; merged if producer, readers and pass are equal
  std::vector<Picoseconds> costs;    // tensors x kinds

  std::size_t size() const { return ops.size(); }
};

/// Options of contract(), the preprocessing of the published dynamic program. Its steps, in their order:
///   1. The ops of each color become one forward and one backward node.
///   2. A backward node without a forward node (an orphan) gets a forward node of cost 0. Each edge between backward
///      nodes, at least one of them an orphan, gets its mirror image between the forward nodes: an edge that imposes
///      an order and has no cost.
///   3. Forward nodes on a cycle, which contraction may create, become one node, with their backward nodes.
///   4. A forward node is merged with its neighbour if it takes below a nanosecond, its backward node (if any) does
///      too, it has no edge to or from a backward node, and exactly one neighbour in the forward graph; repeated until
///      no such node is left.
/// Costs remain those of the original tensors, each counted once per device. If the backward graph mirrors the forward
/// graph, the backward pass of a device is contiguous too; this is not checked.
///
/// J. Tarnawski et al., NeurIPS 2020, section 4 and the authors' program.
struct ContractionOptions {
  bool merge_idle = true;  // step 4
};
Contraction contract(const LoadProblem& problem, const ContractionOptions& options = {});

/// The placement of the ops, each on the device of its block. `block_devices` has one device per block.
LoadPlacement expand(const Contraction& contraction, const LoadProblem& problem,
                     const std::vector<DeviceId>& block_devices);

}  // namespace trainyard
