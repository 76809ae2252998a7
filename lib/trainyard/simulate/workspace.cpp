#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

Workspace::Workspace(const DenseProblem& problem)
    : ops(problem.ops),
      device_free(problem.devices),
      channel_free(problem.channels),
      sent(problem.devices),
      next_in_order(problem.devices),
      end_of_order(problem.devices),
      to_run(problem.devices) {
  destinations.reserve(problem.devices);
  receivers.resize(problem.devices);
  devices_to_run.reserve(problem.devices);
  if (problem.zero_durations) instant.reserve(problem.ops);
}

void Workspace::prepare_sending(const DenseProblem& problem) {
  if (next_edge.size() == problem.edges) return;
  sending.resize(problem.edges);
  next_edge.resize(problem.edges);
}

void Workspace::prepare_record(const DenseProblem& problem) {
  record.started.clear();
  record.in_order = false;
  if (record.ops.size() == problem.ops) return;
  record.started.reserve(problem.ops);
  record.ops.assign(problem.ops, {});
  record.transfers_of.resize(problem.tensors);
  record.transfers.resize(problem.edges);
}

}  // namespace trainyard::detail
