#pragma once

#include <span>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Memory account for placers that decide op by op, before any time is known:
///
///     held(op)      = parameters and state + outputs that outlive the pass: kept, or made in the forward pass and read
///                     after it
///     transient(op) = workspace + its other outputs
///     a device has room while  sum of held + largest transient <= capacity
///
/// It neglects tensors that arrive from other devices (unless given to hold()) and transients that overlap. A placement
/// with room may therefore still exceed memory in simulation.
class MemoryLedger {
 public:
  /// Memory of a group or of a device: the sum of `held` and the maximum of `transient` over its ops.
  struct Need {
    Bytes held, transient;

    Need& operator+=(const Need& other);
  };
  /// Uses `percent` of each capacity, to leave a margin for what the account neglects.
  explicit MemoryLedger(const Problem& problem, int percent = 100);

  const Need& need(GroupId group) const { return needs_[group]; }
  /// Adds the group to the device.
  void take(GroupId group, DeviceId device);
  /// Adds bytes that stay on the device, such as a forward tensor that arrived for a later pass.
  void hold(DeviceId device, Bytes bytes) { used_[device].held += bytes; }
  /// Bytes by which the device would exceed its capacity with the group on it too; 0 if it has room.
  Bytes excess_with(GroupId group, DeviceId device) const { return excess_with(needs_[group], device); }
  Bytes excess_with(const Need& need, DeviceId device) const;
  /// The excess: bytes beyond the capacities, summed over devices.
  Bytes total_excess() const;
  /// Sets `with_room` to the devices of `able` that have room for the group, in their order. If none has room, only to
  /// the one with the least excess (ties: the first).
  void narrow(GroupId group, std::span<const DeviceId> able, std::vector<DeviceId>& with_room) const;

 private:
  IdMap<GroupId, Need> needs_;
  IdMap<DeviceId, Need> used_;
  IdMap<DeviceId, Bytes> capacity_;  // kNoCapacity if the device has none
};

}  // namespace trainyard
