#pragma once

#include <span>
#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/place/kit/calendar.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A plan that a list scheduler builds in its own model of time: a device runs one op at a time, and every transfer
/// takes its route's time without ever waiting for a link. Ops are placed one by one, each after all that it depends
/// on.
class AnalyticPlan {
 public:
  /// Plans with `memory_percent` of each capacity. Calls the checkpoint for every op placed.
  explicit AnalyticPlan(const Problem& problem, bool insertion = true, int memory_percent = 100,
                        Checkpoint checkpoint = Checkpoint{});

  /// Candidate devices of the op. If its colocation group has a device, that one; else the devices that can run the
  /// whole group and have room for it (see MemoryLedger::narrow), by ascending id.
  std::span<const DeviceId> candidates(OpId op);

  /// True if the op can go to the device: its group is there, or has no device yet, can run there and has room. Once
  /// false it stays so.
  bool may_go(OpId op, DeviceId device);
  /// The devices that can run all these groups, none of which has been placed, and have room for them together; by
  /// ascending id, may be empty.
  std::span<const DeviceId> candidates(std::span<const GroupId> groups);
  /// Assigns the group, of which no op has been placed, to the device.
  void assign(GroupId group, DeviceId device);
  bool assigned(GroupId group) const { return !group_device_[group].is_none(); }

  struct Slot {
    DeviceId device;
    Nanoseconds start, finish;
  };
  /// Ready time: when everything that the op needs is on the device. All its predecessors must have been placed, except
  /// in a trial, which ignores those that have no device.
  Nanoseconds ready(OpId op, DeviceId device) const;
  /// The end of the last op on the device, plus the device's gap.
  Nanoseconds last_end(DeviceId device) const { return calendars_[device].last_end(); }
  /// The earliest slot for the op on the device. Predecessors as for ready().
  Slot earliest_slot(OpId op, DeviceId device) const;
  /// The candidate that finishes first; ties go to the lower id.
  Slot earliest_finish(OpId op);
  /// Throws OutOfTime if the checkpoint does.
  void place(OpId op, const Slot& slot);

  /// The slot in which the op would finish first, regardless of memory and of predecessors without a device; ties go to
  /// the lower id.
  Slot trial_slot(OpId op) const;
  /// Puts the op in the slot until end_trial(), regardless of memory.
  void try_out(OpId op, const Slot& slot);
  void end_trial();

  /// None before the op is placed.
  DeviceId device(OpId op) const { return placement_[op]; }
  Nanoseconds start(OpId op) const { return start_[op]; }
  Nanoseconds finish(OpId op) const { return finish_[op]; }
  /// Whether memory has kept an op off a device so far.
  bool memory_bound() const { return memory_bound_; }
  /// The placement and the plan, with policy fifo, once every op has been placed.
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
  std::vector<std::pair<OpId, bool>> tried_;  // op, and whether the trial gave its group the device
  bool memory_bound_ = false;
  std::vector<bool> arrived_;  // tensor x device: a forward tensor arrived for a later pass
};

}  // namespace trainyard
