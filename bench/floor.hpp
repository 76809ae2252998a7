#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/walk_state.hpp"

namespace trainyard::bench {

/// The floor, a lower bound on the work of a simulation: one sweep in topological order (Kahn 1962) over the engine's
/// arrays, with transfer times as edge weights and without resources. It writes starts and ends like the engine. No
/// simulator of these rules can do less.
class Floor {
 public:
  explicit Floor(const detail::DenseProblem& problem)
      : problem_(problem), state_(problem.ops), queue_(problem.ops + 1), spans_(problem.ops) {}

  /// Sweep with two branches per edge, for "crosses devices" and "becomes ready": faster if they are predictable.
  /// Returns the makespan in ns, as branchless() does.
  std::int64_t branchy(const Placement& placement) {
    return sweep(placement, [this](detail::TensorPosition tensor, DeviceId from, detail::Position op, Nanoseconds end,
                                   std::size_t& tail) {
      State& to = state_[op];
      if (to.device != from) end += problem_.transfer_time(tensor, from, to.device);
      to.ready = std::max(to.ready, end);
      if (--to.pending == 0) queue_[tail++] = op;
    });
  }
  /// Sweep with arithmetic selection instead of branches.
  std::int64_t branchless(const Placement& placement) {
    return sweep(placement, [this](detail::TensorPosition tensor, DeviceId from, detail::Position op, Nanoseconds end,
                                   std::size_t& tail) {
      State& to = state_[op];
      const std::int64_t time = problem_.transfer_time(tensor, from, to.device).count;
      to.ready = std::max(to.ready, end + Nanoseconds{time & -static_cast<std::int64_t>(to.device != from)});
      queue_[tail] = op;
      tail += --to.pending == 0 ? 1U : 0U;
    });
  }

 private:
  using State = detail::WalkState::Op;

  template <class Edge>
  [[gnu::always_inline]] std::int64_t sweep(const Placement& placement, const Edge& edge) {
    std::size_t head = 0, tail = 0;
    for (const detail::Position op : problem_.positions()) {
      state_[op] = {Nanoseconds{0}, problem_.pending[op], placement[problem_.op_id(op)]};
      queue_[tail] = op;
      tail += problem_.pending[op] == 0 ? 1U : 0U;
    }
    Nanoseconds makespan{0};
    while (head < tail) {
      const detail::Position op = queue_[head++];
      const DeviceId device = state_[op].device;
      const Nanoseconds start = state_[op].ready, end = start + problem_.duration_of(op, device);
      spans_[op] = {start, end};
      makespan = std::max(makespan, end);
      for (const detail::TensorPosition tensor : problem_.graph.outputs(op))
        for (const detail::Edge i : problem_.graph.edges(tensor))
          edge(tensor, device, problem_.graph.consumer(i), end, tail);
    }
    return makespan.count;
  }

  const detail::DenseProblem& problem_;
  IdMap<detail::Position, State> state_;
  std::vector<detail::Position> queue_;
  IdMap<detail::Position, Span> spans_;
};

}  // namespace trainyard::bench
