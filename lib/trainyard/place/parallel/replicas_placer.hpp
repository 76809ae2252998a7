#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/rewrite/collective.hpp"

namespace trainyard {

struct ReplicasOptions {
  Collective collective = Collective::ring;
  std::size_t zero = 0;
  bool fitting = true;  // the least stage from `zero` on with which the schedule fits; else the last
  std::optional<std::size_t> per_node = {};  // none: nodes_of()
  std::size_t bucket_mebibytes = 25;
  std::function<bool()> stop = {};  // asked all the time: ends with the stages that are done, or throws OutOfTime
};

/// Data parallelism: one replica on each of the devices worth using (rewrite/data_parallel.hpp). Of a parameter
/// server what is shared goes to the device with the least parameters so far; otherwise every replica has its own. The
/// ring goes through the devices in ring_order(), the other algorithms in their own. Ops that the replica's device
/// cannot run go to the first that can. Policy fifo: gradients are added as they are made. Throws InputError
/// ("no-training") of a graph that is no training step, "too-large" beyond about 4 million ops, and as data_parallel()
/// does.
Schedule place_replicas(const Problem& problem, const ReplicasOptions& options = {});

/// Into how many devices in a row these devices fall that reach each other faster than the rows do: the largest number
/// such that the slowest route within a row has more bandwidth than any from a row to the next; all of them where there
/// is none.
std::size_t nodes_of(const Problem& problem, const std::vector<DeviceId>& devices);

/// The devices in a circle whose slowest step from one to the next has the most bandwidth; of these the first in
/// lexicographic order from the first device on. Of clusters where that is hard to find (10^5 steps of search) the best
/// found, or the devices as they are.
std::vector<DeviceId> ring_order(const Problem& problem, const std::vector<DeviceId>& devices);

}  // namespace trainyard
