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
/// Not where Problem::needs_events(): fair channels, collectives, interference (InputError "events").
class EditedSimulation {
 public:
  explicit EditedSimulation(const Problem& problem);
  EditedSimulation(EditedSimulation&&) noexcept;
  EditedSimulation& operator=(EditedSimulation&&) noexcept;
  ~EditedSimulation();

  /// Throws InputError, and then nothing is replaced: "edit" (it comes before the restore() of another one, is of ops
  /// that the graph does not have, or orders new ones that there are not), "missing-output" (no new op makes a tensor
  /// that others read of the old ones); and as GraphBuilder and Problem's constructor do: a new op that no device can
  /// run, times that add up to too much.
  void replace(const GraphEdit& edit);
  void restore();

  /// The problem of the new ops alone: op i is the i-th of `by`; one more op makes the tensors that they read of
  /// others. Throws InputError ("edit") before the first replace().
  const Problem& piece() const;
  /// The number of ops of the edited graph.
  std::size_t op_count() const;
  /// `placement`: of the edited graph, where each op can run. Policy fifo. Throws InputError ("size").
  Nanoseconds makespan(const Placement& placement);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
