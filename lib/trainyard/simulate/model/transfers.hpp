#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::detail {

using TransferId = Id<struct TransferTag>;

/// The link tasks of a placement. First the transfers, one per (tensor, destination device), or per tensor on a
/// broadcasting egress; then the collectives. Ids ascend by (producer, tensor, lowest destination), those of
/// collectives by their op, so that comparing ids breaks ties as the rules require. Stored as one array per property,
/// because the engine reads few of them at a time.
struct PlannedTransfers {
  PlannedTransfers(const Problem& problem, const Placement& placement);
  PlannedTransfers(const PlannedTransfers&) = delete;  // runs_ points into known_
  PlannedTransfers& operator=(const PlannedTransfers&) = delete;

  std::size_t size() const { return tensor.size(); }
  IdRange<TransferId> ids() const { return IdRange<TransferId>{size()}; }
  /// The transfers of one tensor.
  IdRange<TransferId> of(TensorId t) const { return {first_of_tensor[t.index()], first_of_tensor[t.index() + 1]}; }
  /// The op of a collective; none for a transfer.
  OpId collective(TransferId id) const {
    return id.index() < tensor_transfers() ? OpId::none() : collectives[id.index() - tensor_transfers()];
  }
  /// The id of the collective `op` as a link task.
  TransferId of(OpId op) const { return TransferId{tensor_transfers() + number_of[op]}; }
  IdRange<TransferId> collective_ids() const { return {tensor_transfers(), size()}; }
  const CollectiveRun& run(TransferId id) const { return *runs_[id.index() - tensor_transfers()]; }
  /// The consumers on the devices that the transfer serves; the members of a collective.
  std::span<const OpId> consumers(TransferId id) const { return row(consumer, first_consumer, id); }
  /// The channels of the route; for a collective those of its run.
  std::span<const ChannelId> channels(TransferId id) const {
    return id.index() < tensor_transfers() ? row(channel, first_channel, id) : std::span{run(id).channels};
  }
  /// The channels that it passes together with the tasks that it stands for in a fold.
  std::span<const ChannelId> load(TransferId id) const {
    return load_of_.empty() ? channels(id) : std::span{loads_[load_of_[id]]};
  }
  /// The devices served besides `to`, ascending.
  std::span<const DeviceId> also_to(TransferId id) const { return row(other, first_other, id); }

  IdMap<TransferId, TensorId> tensor;    // none: a collective
  IdMap<TransferId, DeviceId> from, to;  // for a collective, the ends of its slowest hop
  IdMap<TransferId, Nanoseconds> duration;
  std::vector<std::uint32_t> first_of_tensor;
  std::vector<std::uint32_t> first_channel, first_consumer, first_other;
  std::vector<ChannelId> channel;
  std::vector<OpId> consumer;
  std::vector<DeviceId> other;
  std::vector<OpId> collectives;
  IdMap<OpId, std::uint32_t> number_of;  // index into `collectives`; empty if there are none

 private:
  std::size_t tensor_transfers() const { return first_of_tensor.back(); }
  void add_collectives(const Problem& problem, const Placement& placement);

  template <class Value>
  static std::span<const Value> row(const std::vector<Value>& values, const std::vector<std::uint32_t>& first,
                                    TransferId id) {
    return {values.data() + first[id.index()], values.data() + first[id.index() + 1]};
  }

  CollectiveRuns known_;
  std::vector<const CollectiveRun*> runs_;  // by collective
  IdMap<TransferId, std::uint32_t> load_of_;
  std::vector<std::vector<ChannelId>> loads_;
};

}  // namespace trainyard::detail
