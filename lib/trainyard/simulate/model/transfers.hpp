#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::detail {

using TransferId = Id<struct TransferTag>;

/// The transfers that a placement needs, one per (tensor, destination device), or per tensor where an egress
/// broadcasts. Ids ascend by (producer, tensor, lowest destination), so that comparing ids breaks ties as the rules
/// want. One array per property: the engine reads few of them at a time.
struct PlannedTransfers {
  PlannedTransfers(const Problem& problem, const Placement& placement);

  std::size_t size() const { return tensor.size(); }
  IdRange<TransferId> ids() const { return IdRange<TransferId>{size()}; }
  /// Transfers of one tensor.
  IdRange<TransferId> of(TensorId t) const { return {first_of_tensor[t.index()], first_of_tensor[t.index() + 1]}; }
  /// Consumers on the devices that the transfer serves.
  std::span<const OpId> consumers(TransferId id) const { return row(consumer, first_consumer, id); }
  /// Devices served beside `to`, ascending.
  std::span<const DeviceId> also_to(TransferId id) const { return row(other, first_other, id); }

  IdMap<TransferId, TensorId> tensor;
  IdMap<TransferId, DeviceId> from, to;
  IdMap<TransferId, Nanoseconds> duration;
  IdMap<TransferId, Hops<ChannelId>> channels;
  std::vector<std::uint32_t> first_of_tensor;
  std::vector<std::uint32_t> first_consumer, first_other;
  std::vector<OpId> consumer;
  std::vector<DeviceId> other;

 private:
  template <class Value>
  static std::span<const Value> row(const std::vector<Value>& values, const std::vector<std::uint32_t>& first,
                                    TransferId id) {
    return {values.data() + first[id.index()], values.data() + first[id.index() + 1]};
  }
};

}  // namespace trainyard::detail
