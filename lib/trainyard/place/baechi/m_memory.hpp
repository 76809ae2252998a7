#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Memory accounting of m-ETF and m-SCT while they schedule op by op:
///
///     an op may run if         workspace + outputs <= capacity - used
///     when it is scheduled     used += outputs (its workspace is freed at once)
///     when its last reader is  used -= outputs that are not kept
///
/// A group takes its parameters and state when its first op is placed, and that op needs room for them too. Outputs
/// that no op reads are freed at once. Tensors that arrive on other devices are not counted, and scheduled ops count as
/// having run, so the simulated schedule may still be out of memory.
///
/// `literal` follows the authors' program. Parameters and state count as part of the outputs, and stay when these are
/// freed. In a graph with colocation groups, the first op of a group needs room for the parameters and state of the
/// whole group, but does not take it. Outputs that no op reads stay.
class BaechiMemory {
 public:
  /// Plans with `percent` of each capacity.
  BaechiMemory(const Problem& problem, bool literal, int percent);

  /// Bytes by which the op would exceed the capacity if it ran on the device now. `placed`: its group has a device.
  Bytes excess(OpId op, DeviceId device, bool placed) const;
  /// Whether there is room for the op and, if its group has no device yet, for the group.
  bool may_run(OpId op, DeviceId device, bool placed) const;

  /// Records that the group's first op has been placed.
  void place(GroupId group, DeviceId device);
  void run(OpId op, DeviceId device, bool has_readers);
  /// Records that all ops that wait for the op have been scheduled.
  void release(OpId op, DeviceId device);

 private:
  const Problem& problem_;
  bool literal_;
  bool grouped_ = false;
  IdMap<OpId, Bytes> outputs_{problem_.op_count()},
      passing_{problem_.op_count()};  // passing: freed when the last reader has been scheduled
  IdMap<OpId, Bytes> need_{problem_.op_count()};
  IdMap<GroupId, Bytes> resident_{problem_.group_count()};
  IdMap<DeviceId, Bytes> capacity_{problem_.device_count()}, used_{problem_.device_count()};
};

}  // namespace trainyard
