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
  /// Every time a multiple of this, so that problems can be compared at several scales.
  std::int64_t unit_ns = 1;
  bool memory = true;          // bytes, workspaces, kept tensors
  bool plain_cluster = false;  // alike devices without gaps
  double zero_times = 0.2;     // the share of op times that are zero
  double updates = 0;          // the share of ops in phase update
  /// Every channel serves one sender, so that transfers need no queue of their own: full-duplex links between all pairs
  /// of devices, or an egress per device.
  bool closed_links = false;
  std::size_t collectives = 0;  // at most
  bool accesses = false;        // bytes that ops read and write
  double fair_links = 0;        // the share of links that are fair; buses are of such links or of none
};

/// Small numbers, so that ties abound: ops of zero duration, tensors of zero bytes, control edges, colocation groups,
/// ops that only some devices run; clusters of direct links, switches, buses, egresses, broadcasts, with and without
/// gaps and latencies. The same for the same state of `random`.
Problem random_problem(Random& random, const RandomProblemOptions& options = {});

/// A valid schedule with a random policy.
Schedule random_schedule(Random& random, const Problem& problem);

}  // namespace trainyard::test
