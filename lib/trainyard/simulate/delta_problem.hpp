#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/dense_problem.hpp"

namespace trainyard::detail {

/// What re-simulating a part of a run needs to know of a problem beyond DenseProblem: the edges backwards, and how much
/// must come after each op. All by position. Immutable; many threads may read it.
struct DeltaProblem {
  explicit DeltaProblem(const Problem& problem);

  DenseProblem dense;
  /// As run_commits() takes them: ops of zero duration are finished beside the queue.
  DenseProblem::Links links;
  std::vector<std::uint32_t> producer;            // by tensor
  std::vector<std::uint32_t> first_input, input;  // by op: tensors
  std::vector<std::uint32_t> first_after, after;  // by op: ops that it comes after
  /// The longest chain of shortest durations after the op: no run ends sooner than this after its end.
  std::vector<std::int64_t> tail;
};

}  // namespace trainyard::detail
