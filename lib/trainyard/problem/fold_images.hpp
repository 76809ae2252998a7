#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// What the devices of a folded graph (graph/rewrite.hpp: Replicate::fold, TensorParallel::fold) stand for. Of the
/// devices on which ops are placed, rank 0 of replica r on stage i is base + (i replicas + r) ranks; those of a stage
/// are of the classes of Replicate, in their order.
class FoldImages {
 public:
  FoldImages(const Problem& problem, const Placement& placement);

  /// Devices that each stands for, itself included; 0 where nothing is placed.
  const IdMap<DeviceId, std::size_t>& counts() const { return counts_; }

  /// How much further on the devices are of what tasks stand for, from 0: of a transfer from the device, those of all
  /// ranks of its class of replicas; of a collective of one replica's ranks, of its class; of one of n replicas in a
  /// row, of all ranks of those of its class that are first of n. Classes whose members are not known have the first of
  /// them alone.
  std::vector<std::size_t> shifts(DeviceId from) const;
  std::vector<std::size_t> shifts(const CollectiveTask& task, DeviceId first) const;

 private:
  std::size_t ranks_ = 1;
  IdMap<DeviceId, std::size_t> counts_;
  IdMap<DeviceId, std::size_t> class_of_;
  std::vector<std::vector<std::size_t>> members_;  // of a class, from its first replica on
};

}  // namespace trainyard
