#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// Forward ops that go to one device, with the backward ops that follow them there: what contiguous splits are made of.
using BlockId = Id<struct LoadBlockTag>;

struct BlockTensor {
  BlockId producer;
  std::vector<BlockId> consumers;  // others than the producer, ascending
  bool backward = false;           // the pass of its producer
};

/// A LoadProblem as its contiguous splits see it: blocks and a graph of the forward pass over them, whose downward
/// closed sets (ideals) are where a split can cut. Blocks are numbered in a topological order of that graph.
struct Contraction {
  std::vector<std::vector<OpId>> ops;             // of each block, both passes, ascending; maybe none
  CompressedRows<BlockId, BlockId> predecessors;  // in the forward graph, ascending; artificial edges included
  CompressedRows<BlockId, BlockId> successors;
  std::vector<Picoseconds> forward, backward;  // blocks x kinds; both kNeverLoad where an op of it cannot run
  std::vector<Bytes> sizes;
  std::vector<BlockTensor> tensors;  // between blocks; those of one producer with the same readers are one
  std::vector<Picoseconds> costs;    // tensors x kinds

  std::size_t size() const { return ops.size(); }
};

/// The preparation of the published dynamic program, in its order:
///   1. the ops of each color become one forward and one backward node;
///   2. a backward node without a forward one gets one that costs nothing; each edge between backward nodes of which
///      one is such an orphan gets its mirror image between the forward nodes (it orders, and never costs);
///   3. forward nodes that reach each other, as contraction may make them, become one, with their backward nodes;
///   4. while there is one: a forward node below a nanosecond, whose backward node, if any, is too, with no edge to a
///      backward node and exactly one neighbour in the forward graph, is merged with that neighbour.
/// Costs stay those of the original tensors, each counted once per device. That the backward pass of a device is
/// contiguous too follows from symmetry where there is any, and is not checked.
///
/// J. Tarnawski et al., NeurIPS 2020, section 4 and the authors' program.
struct ContractionOptions {
  bool merge_idle = true;  // step 4
};
Contraction contract(const LoadProblem& problem, const ContractionOptions& options = {});

/// Every op where its block is.
LoadPlacement expand(const Contraction& contraction, const LoadProblem& problem,
                     const std::vector<DeviceId>& block_devices);

}  // namespace trainyard
