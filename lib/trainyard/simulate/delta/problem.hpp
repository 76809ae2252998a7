#pragma once

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// A DenseProblem plus the data for re-simulating a part of a run: the reverse edges, and a lower bound on the time
/// after each op. Immutable; many threads may read it.
struct DeltaProblem {
  explicit DeltaProblem(const Problem& problem);

  DenseProblem dense;
  /// The form of links that run_commits() uses: the general one if some op has zero duration.
  DenseProblem::Links links{dense.zero_durations ? DenseProblem::Links::queued : dense.links};
  IdMap<TensorPosition, Position> producer{dense.tensors};
  CompressedRows<Position, TensorPosition> inputs;
  CompressedRows<Position, Position> after;  // the ops that an op comes after
  /// Longest chain of shortest durations after the op: a lower bound on the time from its end to the end of any run.
  IdMap<Position, Nanoseconds> tail{dense.ops};
};

}  // namespace trainyard::detail
