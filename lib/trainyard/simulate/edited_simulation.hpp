#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Ops of a graph whose ids follow each other, and those that take their place in the order of ids, as if the graph had
/// been built so: what the old ones read of others the new ones may read, and what others read of the old ones the new
/// ones write, by the same names.
struct GraphEdit {
  OpId first;
  std::size_t count = 1;
  std::vector<OpSpec> by;
  /// Which of `by` are ordered as the old ones were, by their numbers in it: they come after what those came after, and
  /// what came after those comes after them. The `after` of `by` is not looked at.
  std::vector<std::size_t> ordered;
};

/// What schedules under fifo would take were a few ops of a problem replaced by others: a search that splits ops can
/// try it without a copy of the graph. replace() and restore() write some words for each op of the problem, and rows
/// for those around the edit; after the first few they allocate only what the new ops' own times take.
///
/// Not for clusters with fair channels.
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

  /// The problem of the new ops alone: op i is the i-th of `by`; one more makes what they read of others.
  const Problem& piece() const;
  /// Ops of the graph as it would be.
  std::size_t op_count() const;
  /// The placement is of the graph as it would be; policy fifo.
  Nanoseconds makespan(const Placement& placement);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
