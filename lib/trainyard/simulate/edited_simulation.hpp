#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Consecutive ops of a graph, and the ops that replace them, as if the graph had been built with the new ops. The new
/// ops may read the tensors that the old ones read. They must produce, under the old names, the tensors of the old ops
/// that other ops read.
struct GraphEdit {
  OpId first;
  std::size_t count = 1;
  std::vector<OpSpec> by = {};
  /// Indices into `by` of the new ops that inherit the control edges of the old ones, in both directions. The `after`
  /// lists in `by` are ignored.
  std::vector<std::size_t> ordered = {};
};

/// Makespans under fifo with a few ops of a problem replaced by others, so that a search for splits can try one without
/// copying the graph. replace() and restore() write a few words per op of the problem, and rows for the ops around the
/// edit. After the first few calls they allocate memory only for the times of the new ops.
///
/// Throws InputError ("events") if Problem::runs_in_full(): fair channels, collectives or interference.
class EditedSimulation {
 public:
  explicit EditedSimulation(const Problem& problem);
  EditedSimulation(EditedSimulation&&) noexcept;
  EditedSimulation& operator=(EditedSimulation&&) noexcept;
  ~EditedSimulation();

  /// Throws InputError and replaces nothing: "edit" (another edit has not been restored yet, or the edit replaces ops
  /// that the graph does not have, or orders new ops that do not exist), "missing-output" (no new op makes a tensor of
  /// the old ops that others read); also like GraphBuilder and Problem's constructor, for a new op that no device can
  /// run or times that add up to too much.
  void replace(const GraphEdit& edit);
  void restore();

  /// The problem of the new ops alone: op i is the i-th of `by`; one more op makes the tensors that they read from
  /// other ops. Throws InputError ("edit") before the first replace().
  const Problem& piece() const;
  /// Number of ops of the edited graph.
  std::size_t op_count() const;
  /// Makespan of the edited graph under policy fifo. `placement`: a device that can run it for each of its ops. Throws
  /// InputError ("size").
  Nanoseconds makespan(const Placement& placement);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
