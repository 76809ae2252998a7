#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Images of the devices of a folded graph: the devices that they stand for (graph/rewrite.hpp: Replicate::fold,
/// TensorParallel::fold). Among the devices with ops, rank 0 of replica r on stage i is device base + (i replicas + r)
/// ranks. The devices of a stage belong to the classes of Replicate, in their order.
class FoldImages {
 public:
  FoldImages(const Problem& problem, const Placement& placement);

  /// Number of devices that each device stands for, itself included; 0 if no op is placed on it.
  const IdMap<DeviceId, std::size_t>& counts() const { return counts_; }

  /// Offsets, in device numbers and including 0, from a task's devices to those of its images:
  ///
  ///     a transfer from `from`                         all ranks of the replicas of its class
  ///     a collective among the ranks of a replica      the replicas of its class
  ///     a collective among a group of replicas that    all ranks of the groups of its class
  ///     share a sequence or divide experts
  ///     a collective among replicas that hold the      all ranks, for each of the other experts too
  ///     same experts
  ///     a collective among all replicas                all ranks
  ///
  /// A class whose members are not known has only its first replica.
  std::vector<std::size_t> shifts(DeviceId from) const;
  std::vector<std::size_t> shifts(const CollectiveTask& task, DeviceId first) const;

 private:
  std::size_t ranks_ = 1, group_ = 1, experts_ = 1;
  IdMap<DeviceId, std::size_t> counts_;
  IdMap<DeviceId, std::size_t> class_of_;
  std::vector<std::vector<std::size_t>> members_;  // by class, relative to its first replica
};

}  // namespace trainyard
