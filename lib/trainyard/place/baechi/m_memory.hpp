#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Memory as m-ETF and m-SCT keep account of it while they schedule, op by op:
///
///     an op may run where      workspace + outputs <= capacity - used
///     when it is scheduled     used += outputs (its workspace is gone at once)
///     when its last reader is  used -= outputs that are not kept
///
/// A group takes its parameters and state when its first op is placed, and that op needs room for them too. Outputs
/// that nobody reads go at once. What arrives on other devices is not counted, and what is scheduled counts as having
/// run: a schedule may still be out of memory, as the simulator will say.
///
/// `literal`, as in the authors' program: parameters and state are thought to be part of the outputs, and stay when
/// these go; a graph with colocation groups asks for room for those of the whole group when its first op is placed, but
/// does not take it; outputs that nobody reads stay.
class BaechiMemory {
 public:
  /// Counts on `percent` of each capacity.
  BaechiMemory(const Problem& problem, bool literal, int percent);

  /// By how much the device would be beyond its capacity with the op on it now; `placed`: its group has a device.
  Bytes excess(OpId op, DeviceId device, bool placed) const;
  /// There is room for the op, and where its group has no device yet for that.
  bool may_run(OpId op, DeviceId device, bool placed) const;

  /// The group's first op has been placed.
  void place(GroupId group, DeviceId device);
  void run(OpId op, DeviceId device, bool has_readers);
  /// All that wait for the op have been scheduled.
  void release(OpId op, DeviceId device);

 private:
  const Problem& problem_;
  bool literal_;
  bool grouped_ = false;
  IdMap<OpId, Bytes> outputs_{problem_.op_count()},
      passing_{problem_.op_count()};  // passing: what goes when the last reader has been scheduled
  IdMap<OpId, Bytes> need_{problem_.op_count()};
  IdMap<GroupId, Bytes> resident_{problem_.group_count()};
  IdMap<DeviceId, Bytes> capacity_{problem_.device_count()}, used_{problem_.device_count()};
};

}  // namespace trainyard
