#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::bench {

/// The floor: one sweep in topological order (Kahn 1962) over the arrays that the engine uses, with transfer times as
/// edge weights and no resource; it writes the same starts and ends. No simulator of these rules can do less.
class Floor {
 public:
  explicit Floor(const detail::DenseProblem& problem)
      : problem_(problem), state_(problem.ops), queue_(problem.ops + 1), spans_(problem.ops) {}

  /// With a branch per edge for what crosses devices and what becomes ready: faster where they are easy to guess.
  std::int64_t branchy(const Placement& placement) {
    return sweep(placement, [this](std::uint32_t tensor, std::uint32_t from, std::uint32_t op, std::int64_t end,
                                   std::size_t& tail) {
      State& to = state_[op];
      if (to.device != from) end += problem_.transfer_time(tensor, from, to.device);
      to.ready = std::max(to.ready, end);
      if (--to.pending == 0) queue_[tail++] = op;
    });
  }
  /// With selections instead.
  std::int64_t branchless(const Placement& placement) {
    return sweep(placement, [this](std::uint32_t tensor, std::uint32_t from, std::uint32_t op, std::int64_t end,
                                   std::size_t& tail) {
      State& to = state_[op];
      const std::int64_t time = problem_.transfer_time(tensor, from, to.device);
      to.ready = std::max(to.ready, end + (time & -static_cast<std::int64_t>(to.device != from)));
      queue_[tail] = op;
      tail += --to.pending == 0 ? 1U : 0U;
    });
  }

 private:
  using State = detail::Workspace::OpState;

  template <class Edge>
  [[gnu::always_inline]] std::int64_t sweep(const Placement& placement, const Edge& edge) {
    const DeviceId* const devices = placement.values().data();
    std::size_t head = 0, tail = 0;
    for (std::uint32_t op = 0; op < problem_.ops; ++op) {
      state_[op] = {0, problem_.pending[op], static_cast<std::uint32_t>(devices[problem_.op_id(op)].index())};
      queue_[tail] = op;
      tail += problem_.pending[op] == 0 ? 1U : 0U;
    }
    std::int64_t makespan = 0;
    while (head < tail) {
      const std::uint32_t op = queue_[head++];
      const std::uint32_t device = state_[op].device;
      const std::int64_t start = state_[op].ready, end = start + problem_.duration_of(op, device);
      spans_[op] = {Nanoseconds{start}, Nanoseconds{end}};
      makespan = std::max(makespan, end);
      for (std::uint32_t tensor = problem_.first_output[op]; tensor < problem_.first_output[op + 1]; ++tensor)
        for (std::uint32_t i = problem_.first_consumer[tensor]; i < problem_.first_consumer[tensor + 1]; ++i)
          edge(tensor, device, static_cast<std::uint32_t>(problem_.consumer[i].index()), end, tail);
    }
    return makespan;
  }

  const detail::DenseProblem& problem_;
  std::vector<State> state_;
  std::vector<std::uint32_t> queue_;
  std::vector<Span> spans_;
};

}  // namespace trainyard::bench
