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

/// A graph under construction in which tensors may be parts of others and ops join colocation groups as they come.
class DraftGraph {
 public:
  using Index = std::size_t;
  static constexpr Index kNone = std::numeric_limits<Index>::max();

  /// Adds an op (its inputs and outputs are ignored, its name made unique) that reads the tensors.
  Index add_op(OpSpec op, const std::vector<Index>& inputs);
  OpSpec& op(Index index) { return ops_[index].spec; }
  std::size_t op_count() const { return ops_.size(); }

  Index add_output(Index op, const std::string& name, Bytes bytes, bool statistics = false);
  /// Part of another tensor: a tensor of its own where no op reads the whole and the parts that are read make it up,
  /// otherwise another name for the whole.
  Index add_slice(Index of, const std::string& name, Bytes bytes);

  /// The tensor that this one is a part of: itself where it is not a slice.
  Index whole(Index tensor) const { return tensors_[tensor].whole; }

  /// Two ops, or an op and the thing of that number (a parameter), must share a device.
  void join_ops(Index a, Index b) { groups_.join(a, b); }
  void join_thing(Index op, std::size_t thing, const std::string& name);

  struct Built {
    Graph graph;
    /// The id in the graph, by draft tensor; none() for a name of another one, and for a whole that its slices make up.
    std::vector<TensorId> declared;
  };
  /// Groups are named after their lowest thing, or after their first op where they have none.
  Built build(const std::string& name) &&;

 private:
  struct Op {
    OpSpec spec;
    std::vector<Index> inputs, outputs;
  };
  struct Tensor {
    std::string name;
    Bytes bytes;
    Index whole;  // itself where it is not a slice
    bool statistics = false;
  };
  struct Thing {
    std::size_t number;
    std::string name;
    Index op;  // the first to join
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
