#pragma once

#include <span>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Account of memory for placers that decide op by op, before any time is known:
///
///     held(op)      = parameters and state + outputs that outlive the pass: kept, or made in the forward pass and read
///                     after it
///     transient(op) = workspace + its other outputs
///     a device has room while  sum of held + largest transient <= capacity
///
/// It neglects tensors that arrive (unless told by `hold`) and transients that overlap, so a placement with room may
/// still run out of memory: the simulator has the last word.
class MemoryLedger {
 public:
  /// Memory of a group or of a device: `held` adds up over ops; of `transient` only the largest counts.
  struct Need {
    Bytes held, transient;

    Need& operator+=(const Need& other);
  };
  /// Counts on `percent` of each capacity, to leave room for what it neglects.
  explicit MemoryLedger(const Problem& problem, int percent = 100);

  const Need& need(GroupId group) const { return needs_[group]; }
  /// Puts the group on the device.
  void take(GroupId group, DeviceId device);
  /// Something more that stays there: a forward tensor that arrived for a later pass.
  void hold(DeviceId device, Bytes bytes) { used_[device].held += bytes; }
  /// By how much the device would be beyond its capacity with the group on it too; 0 where it has room.
  Bytes excess_with(GroupId group, DeviceId device) const { return excess_with(needs_[group], device); }
  Bytes excess_with(const Need& need, DeviceId device) const;
  /// By how much all devices together are beyond their capacities.
  Bytes total_excess() const;
  /// The devices of `able` that have room for the group, in their order. Where none has, the one with the least excess
  /// alone (ties: the first).
  void narrow(GroupId group, std::span<const DeviceId> able, std::vector<DeviceId>& with_room) const;

 private:
  IdMap<GroupId, Need> needs_;
  IdMap<DeviceId, Need> used_;
  IdMap<DeviceId, Bytes> capacity_;  // kNoCapacity where the device has none
};

}  // namespace trainyard
