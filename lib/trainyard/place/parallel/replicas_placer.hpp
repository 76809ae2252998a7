#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct ReplicasOptions {
  Collective collective = Collective::ring;
  std::size_t zero = 0;
  bool fitting = true;  // the lowest stage from `zero` on that fits; else the one with the least excess
  std::optional<std::size_t> per_node = {};  // none: nodes_of()
  std::size_t bucket_mebibytes = 25;
  std::function<bool()> stop = {};  // polled: ends with the stages tried so far, or throws OutOfTime
};

/// Data parallelism: one replica on each of the devices worth using (rewrite/data_parallel.hpp). The shared ops of a
/// parameter server go to the device that holds the least so far; otherwise every replica has its own. Rings go through
/// the devices in ring_order(), other collectives in the given order. Ops that the replica's device cannot run go to
/// the first device that can. Policy fifo: gradients are added as they are made. Throws InputError "no-training" if the
/// graph is no training step, "too-large" beyond about 4 million ops, and as data_parallel() does.
Schedule place_replicas(const Problem& problem, const ReplicasOptions& options = {});

/// Number of consecutive devices that form a node. It is the largest number for which the slowest route within a node
/// has more bandwidth than any route from a device to its counterpart in the next node; all devices if there is none.
std::size_t nodes_of(const Problem& problem, const std::vector<DeviceId>& devices);

/// The devices in a cycle whose slowest hop has the most bandwidth; of several, the lexicographically first that starts
/// with the first device. Each bandwidth is searched for at most half of the steps that are left, of 200,000 at first;
/// then the next lower one is. If none are left, the devices in the given order.
std::vector<DeviceId> ring_order(const Problem& problem, const std::vector<DeviceId>& devices);

}  // namespace trainyard
