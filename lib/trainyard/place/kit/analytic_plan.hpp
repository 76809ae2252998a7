#pragma once

#include <span>
#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/place/kit/calendar.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A plan in the making, as list schedulers count it: a device runs one op at a time, and every transfer takes its
/// route's time without ever waiting. Ops are placed one by one, each after all that it depends on.
class AnalyticPlan {
 public:
  /// Counts on `memory_percent` of each capacity. Passes the checkpoint with every op placed.
  explicit AnalyticPlan(const Problem& problem, bool insertion = true, int memory_percent = 100,
                        Checkpoint checkpoint = Checkpoint{});

  /// Candidate devices of the op: that of its colocation group; before the group has one, the devices that can run the
  /// whole group and have room for it (see MemoryLedger), by ascending id.
  std::span<const DeviceId> candidates(OpId op);

  /// True if the device is, or could still become, one of these candidates. Once false it stays so.
  bool may_go(OpId op, DeviceId device);
  /// The devices that can run all these groups, none of them placed, and have room for them together, by ascending id;
  /// may be empty.
  std::span<const DeviceId> candidates(std::span<const GroupId> groups);
  /// Puts the group there, of which no op has been placed.
  void assign(GroupId group, DeviceId device);
  bool assigned(GroupId group) const { return !group_device_[group].is_none(); }

  struct Slot {
    DeviceId device;
    Nanoseconds start, finish;
  };
  /// The time by which everything that the op needs is on the device. All that it depends on must have been placed, but
  /// for a trial.
  Nanoseconds ready(OpId op, DeviceId device) const;
  /// The end of the last op on the device, and its gap.
  Nanoseconds last_end(DeviceId device) const { return calendars_[device].last_end(); }
  /// The earliest slot for the op on the device; of these too.
  Slot earliest_slot(OpId op, DeviceId device) const;
  /// The candidate that finishes first; ties go to the lower id.
  Slot earliest_finish(OpId op);
  /// Throws OutOfTime where the checkpoint does.
  void place(OpId op, const Slot& slot);

  /// The slot where the op would finish first, memory aside and whatever it depends on that has none; ties go to the
  /// lower id.
  Slot trial_slot(OpId op) const;
  /// The op is in the slot, memory aside, until end_trial().
  void try_out(OpId op, const Slot& slot);
  void end_trial();

  /// None before the op is placed.
  DeviceId device(OpId op) const { return placement_[op]; }
  Nanoseconds start(OpId op) const { return start_[op]; }
  Nanoseconds finish(OpId op) const { return finish_[op]; }
  /// Memory kept an op off a device so far.
  bool memory_bound() const { return memory_bound_; }
  /// Once every op has been placed: the placement and the plan, policy fifo.
  Schedule schedule() const;

 private:
  Nanoseconds occupied(OpId op, DeviceId device) const;
  void put(OpId op, const Slot& slot);
  void hold_arrivals(OpId op, DeviceId device);

  const Problem& problem_;
  bool insertion_;
  Checkpoint checkpoint_;
  AbleDevices able_;
  MemoryLedger memory_;
  IdMap<GroupId, DeviceId> group_device_{problem_.group_count()};
  IdMap<DeviceId, Calendar> calendars_{problem_.device_count()};
  Placement placement_{problem_.op_count()};
  IdMap<OpId, Nanoseconds> start_{problem_.op_count()}, finish_{problem_.op_count()};
  std::vector<DeviceId> candidates_;
  std::vector<std::pair<OpId, bool>> tried_;  // and whether its group got its device so
  bool memory_bound_ = false;
  std::vector<bool> arrived_;  // tensor x device: forward tensors held elsewhere for a later pass
};

}  // namespace trainyard
