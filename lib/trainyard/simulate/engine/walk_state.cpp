#include "trainyard/simulate/engine/walk_state.hpp"

namespace trainyard::detail {

WalkState::WalkState(const DenseProblem& problem)
    : ops(problem.ops), device_free(problem.devices), channel_free(problem.channels), sent(problem.devices) {
  destinations.reserve(problem.devices);
  if (problem.zero_durations) instant.reserve(problem.ops);
}

void WalkState::prepare_sending(const DenseProblem& problem) {
  if (next_edge.size() == problem.edges) return;
  sending.resize(problem.edges);
  next_edge.resize(problem.edges);
}

void WalkState::clear() {
  device_free.assign(device_free.size(), Nanoseconds{0});
  channel_free.assign(channel_free.size(), Nanoseconds{0});
  for (Sent& last : sent) last.tensor = TensorPosition::none();
  instant.clear();
}

}  // namespace trainyard::detail
