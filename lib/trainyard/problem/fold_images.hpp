#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// What a folded graph (graph/rewrite.hpp: Replicate::fold, TensorParallel::fold) leaves out, on fair channels. Each
/// device stands for those r t + k further on, r < replicas, k < t tensor ranks: what it sends, they send to the
/// devices that are as far from its destination. A collective of a replica's ranks stands for those of all replicas,
/// one of the replicas for those of all ranks. Where several classes of replicas are made, whose members are not known
/// here, each stands for itself alone.
class FoldImages {
 public:
  explicit FoldImages(const Problem& problem);

  /// Some are left out, and some channel is fair.
  bool any() const { return ranks_ * replicas_ > 1; }
  /// The channels of a transfer's route, each fair one as often in a row as the images pass it, itself included.
  std::vector<ChannelId> load(DeviceId from, DeviceId to) const;
  /// The same of a collective whose run holds `channels`.
  std::vector<ChannelId> load(const CollectiveTask& task, const std::vector<DeviceId>& devices,
                              std::span<const ChannelId> channels) const;

 private:
  const Problem* problem_;
  std::size_t ranks_ = 1, replicas_ = 1;
};

}  // namespace trainyard
