#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "trainyard/core/disjoint_sets.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A graph under construction. Its tensors may be parts of other tensors, and ops can join colocation groups at any
/// time.
class DraftGraph {
 public:
  using Index = std::size_t;
  static constexpr Index kNone = std::numeric_limits<Index>::max();

  /// Adds an op that reads the tensors. Its name is made unique; inputs and outputs in `op` are ignored.
  Index add_op(OpSpec op, const std::vector<Index>& inputs);
  OpSpec& op(Index index) { return ops_[index].spec; }
  std::size_t op_count() const { return ops_.size(); }

  Index add_output(Index op, const std::string& name, Bytes bytes, bool statistics = false);
  /// Adds a part of another tensor. It becomes a tensor of its own if no op reads the whole and the parts that are read
  /// add up to it. Otherwise it is another name for the whole.
  Index add_slice(Index of, const std::string& name, Bytes bytes);

  /// The tensor that this one is a part of; itself if it is not a slice.
  Index whole(Index tensor) const { return tensors_[tensor].whole; }

  /// Constrains two ops, or an op and the thing with that number (a parameter), to share a device.
  void join_ops(Index a, Index b) { groups_.join(a, b); }
  void join_thing(Index op, std::size_t thing, const std::string& name);

  struct Built {
    Graph graph;
    /// Id in the graph of each draft tensor. none() for a slice that is another name for its whole, and for a whole
    /// that is declared as its slices.
    std::vector<TensorId> declared;
  };
  /// Builds the graph. A colocation group is named after its thing with the lowest number, or after its first op if it
  /// has no thing.
  Built build(const std::string& name) &&;

 private:
  struct Op {
    OpSpec spec;
    std::vector<Index> inputs, outputs;
  };
  struct Tensor {
    std::string name;
    Bytes bytes;
    Index whole;  // itself if it is not a slice
    bool statistics = false;
  };
  struct Thing {
    std::size_t number;
    std::string name;
    Index op;  // the first op to join
  };

  void settle_slices();
  void name_groups();
  static std::string unique(std::unordered_map<std::string, int>& taken, const std::string& name);

  std::vector<Op> ops_;
  std::vector<Tensor> tensors_;
  DisjointSets groups_;  // of ops
  std::vector<Thing> things_;
  std::unordered_map<std::size_t, std::size_t> thing_at_;
  std::unordered_map<std::string, int> op_names_, tensor_names_;
};

}  // namespace trainyard
