#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/transform/collective.hpp"

namespace trainyard {

enum class SplitDimension : std::uint8_t {
  batch,    // samples
  channel,  // output channels of a convolution, output features of a product
};

/// One change of a graph: of an op by its name, or without a name of the whole graph.
struct GraphSplit {
  enum class Whole : std::uint8_t {
    replicas,      // data parallel, each with its share of the batch (data_parallel.hpp)
    microbatches,  // the batch in parts one after the other, gradients accumulated (microbatches.hpp)
    recompute,     // forward ops run again for the backward pass (recompute.hpp)
  };

  std::string op = {};
  SplitDimension dimension = SplitDimension::batch;
  std::size_t parts = 2;  // of the op; replicas; microbatches

  Whole whole = Whole::replicas;  // without an op
  // Of replicas: see DataParallelOptions.
  Collective collective = Collective::parameter_server;
  std::size_t per_node = 1;
  std::size_t zero = 0;
  Bytes bucket = kBucket;
  // Of recompute: the ops.
  std::vector<std::string> again = {};

  static constexpr Bytes kBucket{25 * 1024 * 1024};

  friend bool operator==(const GraphSplit&, const GraphSplit&) = default;
};

}  // namespace trainyard
