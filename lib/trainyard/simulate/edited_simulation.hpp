#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Consecutive ops of a graph, and the ops that replace them, as if the graph had been built with these in their place:
/// the new ops may read the tensors that the old ones read, and write, under their names, the tensors that others read
/// of the old ones.
struct GraphEdit {
  OpId first;
  std::size_t count = 1;
  std::vector<OpSpec> by = {};
  /// Indices into `by`: the new ops that inherit the control edges of the old ones, in both directions. The `after` of
  /// `by` is ignored.
  std::vector<std::size_t> ordered = {};
};

/// Makespans under fifo with a few ops of a problem replaced by others: a search that splits ops can try a split
/// without a copy of the graph. replace() and restore() write some words for each op of the problem, and rows for the
/// ops around the edit; after the first few calls they allocate only what the new ops' own times take.
///
/// Not where Problem::needs_events(): fair channels, collectives, interference.
class EditedSimulation {
 public:
  explicit EditedSimulation(const Problem& problem);
  EditedSimulation(EditedSimulation&&) noexcept;
  EditedSimulation& operator=(EditedSimulation&&) noexcept;
  ~EditedSimulation();

  /// Throws InputError as Problem's constructor does: a new op that no device can run, times that add up to too much;
  /// then nothing is replaced. Not twice without restore().
  void replace(const GraphEdit& edit);
  void restore();

  /// The problem of the new ops alone: op i is the i-th of `by`; one more op makes the tensors that they read of
  /// others.
  const Problem& piece() const;
  /// The number of ops of the edited graph.
  std::size_t op_count() const;
  /// `placement`: of the edited graph. Policy fifo.
  Nanoseconds makespan(const Placement& placement);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
