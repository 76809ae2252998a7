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

/// What each device of a run holds from instant to instant, and an estimate of what it would hold if some ops ran at
/// the same times on another device: of each tensor that a moved op makes or reads, the two devices then hold
///
///     where it is made:  [start of the producer, the latest of its end and the ends of consumers there),
///     where it is read:  [end of the producer, the last end of a consumer there)
///
/// in place of what these two lines say of it before the move (a kept tensor until the end of the step). All else stays
/// as it was in the run. No simulation is needed.
class HeldMemory {
 public:
  /// The timeline is that of a run of the placement; it and the problem must outlive this.
  HeldMemory(const Problem& problem, const Placement& placement, const Timeline& timeline);

  /// Bytes below the capacity at the peak, negative beyond it; as good as endless where there is no capacity.
  std::int64_t room(DeviceId device) const { return room_[device]; }
  /// By how many bytes the device is less beyond its capacity without these ops, all of which are on it.
  std::int64_t freed(std::span<const OpId> ops, DeviceId from);
  /// By how many bytes the device is further beyond its capacity with these ops, none of which is on it.
  std::int64_t burden(std::span<const OpId> ops, DeviceId to);

 private:
  struct Change {
    Nanoseconds at;
    std::int64_t bytes;  // from then on
  };
  /// The most held on a device in any [from, until): a sparse table over the instants at which that changes.
  struct Profile {
    std::vector<Nanoseconds> at;
    std::vector<std::vector<std::int64_t>> most;  // most[k][i]: of 2^k steps from the i-th on
    std::int64_t between(Nanoseconds from, Nanoseconds until) const;
  };

  /// Adds to changes_ what the device holds of the tensor, `sign` times.
  void hold(TensorId tensor, DeviceId device, std::int64_t sign);
  /// By how many bytes the device is further beyond its capacity with these ops, all on one device, on `to` (none:
  /// elsewhere); it is one end of that move. The placement is as before.
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
