#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/core/random.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::test {

struct RandomProblemOptions {
  std::size_t most_ops = 14;
  std::size_t most_devices = 5;
  /// All times are multiples of this, so that problems can be compared at several scales.
  std::int64_t unit_ns = 1;
  bool memory = true;          // bytes, workspaces, kept tensors
  bool plain_cluster = false;  // equal devices without gaps
  double zero_times = 0.2;     // share of op times that are zero
  double updates = 0;          // share of ops in the update phase
  /// Every channel has one sender, so that transfers never queue: full-duplex links between all pairs of devices, or an
  /// egress for each device.
  bool closed_links = false;
  std::size_t collectives = 0;  // maximum number
  bool accesses = false;        // bytes that ops read and write
  double fair_links = 0;        // share of links that are fair; a bus has only fair links or none
};

/// A random problem with small numbers, so that ties are common: ops of zero duration, tensors of zero bytes, control
/// edges, colocation groups, ops that only some devices can run; clusters of direct links, switches, buses, egresses
/// and broadcasts, with and without gaps and latencies. Deterministic in the state of `random`.
Problem random_problem(Random& random, const RandomProblemOptions& options = {});

/// A valid schedule with a random policy.
Schedule random_schedule(Random& random, const Problem& problem);

}  // namespace trainyard::test
