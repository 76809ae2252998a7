#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Memory that each device of a run holds over time, and an estimate of what it would hold if some ops ran at the same
/// times on another device. For each tensor that a moved op makes or reads, the two devices are then taken to hold
///
///     where it is made:  [start of the producer, the latest of its end and the ends of consumers there),
///     where it is read:  [end of the producer, the last end of a consumer there)
///
/// in place of what these two lines give before the move (a kept tensor until the end of the step). All else stays as
/// in the run. No simulation is needed.
class HeldMemory {
 public:
  /// `timeline` is of a run of the placement; it and the problem must outlive this object.
  HeldMemory(const Problem& problem, const Placement& placement, const Timeline& timeline);

  /// Capacity minus peak in bytes, negative if the peak exceeds it; practically infinite without a capacity.
  std::int64_t room(DeviceId device) const { return room_[device]; }
  /// Bytes by which the device's excess falls if these ops, all of which are on it, leave.
  std::int64_t freed(std::span<const OpId> ops, DeviceId from);
  /// Bytes by which the device's excess grows if these ops, none of which is on it, move there.
  std::int64_t burden(std::span<const OpId> ops, DeviceId to);

 private:
  struct Change {
    Nanoseconds at;
    std::int64_t bytes;  // by which the memory held changes
  };
  /// Maximum memory held on a device in any [from, until): a sparse table over the instants at which it changes.
  struct Profile {
    std::vector<Nanoseconds> at;
    std::vector<std::vector<std::int64_t>> most;  // most[k][i]: maximum of 2^k steps from step i on
    std::int64_t between(Nanoseconds from, Nanoseconds until) const;
  };

  /// Adds the device's holding of the tensor to changes_, `sign` times.
  void hold(TensorId tensor, DeviceId device, std::int64_t sign);
  /// Change of the device's excess in bytes if these ops, all on one device, move to `to` (none: leave). The device is
  /// one end of that move. Leaves the placement as it is.
  std::int64_t excess_change(std::span<const OpId> ops, DeviceId to, DeviceId device);

  const Problem& problem_;
  const Timeline& timeline_;
  Placement placement_;
  IdMap<DeviceId, std::int64_t> room_;
  IdMap<DeviceId, Profile> profiles_;
  std::vector<TensorId> tensors_;
  std::vector<Change> changes_;
};

}  // namespace trainyard
