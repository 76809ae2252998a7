#pragma once

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// A DenseProblem, and what re-simulating a part of a run needs beside it: the edges backwards, and how much must come
/// after each op. Immutable; many threads may read it.
struct DeltaProblem {
  explicit DeltaProblem(const Problem& problem);

  DenseProblem dense;
  /// The form that run_commits() takes: the general one where ops of zero duration are finished beside the queue.
  DenseProblem::Links links{dense.zero_durations ? DenseProblem::Links::queued : dense.links};
  IdMap<TensorPosition, Position> producer{dense.tensors};
  CompressedRows<Position, TensorPosition> inputs;
  CompressedRows<Position, Position> after;  // the ops that an op comes after
  /// The longest chain of shortest durations after the op: no run ends sooner than this after its end.
  IdMap<Position, Nanoseconds> tail{dense.ops};
};

}  // namespace trainyard::detail
