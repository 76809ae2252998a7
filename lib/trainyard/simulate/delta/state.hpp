#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/engine/ready_queue.hpp"
#include "trainyard/simulate/engine/walk_state.hpp"

namespace trainyard::detail {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// An op's run, relative to the *head* of its epoch: what comes between two snapshots. A part of the run that moves
/// in time as a whole moves by its heads alone.
struct OpRun {
  Nanoseconds start, end;
  std::uint32_t epoch;
};
struct TransferRun {
  Nanoseconds start, end;
  std::uint32_t epoch;  // in which it was committed; kNone: not yet
  DeviceId to;          // none: there is no transfer in this slot
  TensorPosition tensor;
};

/// The state after some number of commits that the rest of a run depends on. Times are relative to the head, and none
/// is before it: nothing that is still to come starts earlier.
struct Snapshot {
  Nanoseconds head;             // ready time of the first task to come, absolute
  std::uint32_t head_task = 0;  // and its number
  std::uint32_t committed = 0;  // ops
  struct Touched {
    Position op;
    std::uint32_t pending;
    Nanoseconds ready;
  };
  std::vector<Touched> frontier;  // ops that something has reached (or that wait for nothing), and not yet run
  struct Flight {
    TensorPosition tensor;
    DeviceId from, to;
    Nanoseconds ready;
  };
  std::vector<Flight> flights;  // transfers in the queue
  IdMap<DeviceId, Nanoseconds> device_free;
  struct Busy {
    ChannelId channel;
    Nanoseconds free;
  };
  std::vector<Busy> channels;                // those that are not free at the head
  IdMap<DeviceId, Nanoseconds> work_done;    // the durations of the ops that it has run
  IdMap<DeviceId, Position> last_on_device;  // strict: the last op in turn that was committed

  std::size_t bytes() const {
    return sizeof *this + frontier.size() * sizeof(Touched) + flights.size() * sizeof(Flight) +
           channels.size() * sizeof(Busy) + (device_free.size() + work_done.size()) * sizeof(Nanoseconds) +
           last_on_device.size() * sizeof(Position);
  }
};

/// One change of the schedule, not yet accepted, and its effects before the restart.
struct Change {
  /// An op whose device or turn changes: until it is committed, the run is not the old one.
  struct Op {
    Position op;
    DeviceId old_device, new_device;
    Position old_turn_after;
    bool moved = false;
    // At the restart: how many of its inputs are missing, and the latest of those that are not.
    std::uint32_t pending = 0;
    Nanoseconds ready = {};
  };
  std::vector<Op> ops;
  /// A transfer that appears or disappears, of a producer that need not run again.
  struct Edit {
    ChannelId channel;  // none: it takes its time on none
    TensorPosition tensor;
    DeviceId to;
    bool add;
    Nanoseconds sent;        // end of the producer
    Nanoseconds start, end;  // added
    Nanoseconds free_after;  // the channel
    Slot next;               // the next transfer on the channel; none: there is none, or it is edited too
  };
  std::vector<Edit> edits;  // by (channel, place in its order)
  std::uint32_t restart = 0;
  std::uint32_t first_match = 0;  // before this snapshot the runs cannot have met
};

/// The working memory of one delta simulation: the run on record, and the run of a change.
struct DeltaState {
  DeltaState(const DeltaProblem& problem, Policy policy);

  /// Between runs, ops and transfers are as before the first task: a run cleans up behind itself.
  WalkState work;
  ReadyQueues queues;
  struct Flying {
    TensorPosition tensor;  // none: the transfer is not in the queue
    DeviceId from;
    Nanoseconds ready;
  };
  IdMap<Slot, Flying> flying;

  /// The number of tasks that an op waits for before anything has reached it; kNone where there are none.
  IdMap<Position, std::uint32_t> reset;
  /// strict: the ops of non-zero duration before and after this one on its device.
  IdMap<Position, Position> turn_after, turn_before;
  bool strict;
  IdMap<DeviceId, Nanoseconds> device_work;  // the durations of its ops
  IdMap<Position, std::uint8_t> changed;     // it is one of change.ops

  // The run on record.
  std::uint32_t spacing = 64;  // ops between two snapshots
  IdMap<Position, OpRun> runs;
  IdMap<Slot, TransferRun> transfers;
  IdMap<ChannelId, std::vector<Slot>> channel_order;  // the transfers on channels in closed form
  std::vector<Snapshot> snapshots;
  std::vector<Nanoseconds> epoch_latest;                // relative to the head
  std::vector<Nanoseconds> latest_before, latest_from;  // by snapshot, absolute; with one past the end
  Nanoseconds makespan;

  // The run of the change.
  Change change;
  std::vector<Position> committed;  // in this order; those before the restart are stale
  std::uint32_t count = 0;
  std::uint32_t meets = 0;  // the snapshot from which on it is the run on record, shifted; snapshots.size(): none
  Nanoseconds shift;
  IdMap<Position, OpRun> new_runs;
  IdMap<Slot, TransferRun> new_transfers;
  std::vector<Snapshot> new_snapshots;
  std::vector<Nanoseconds> new_epoch_latest;
  // While it is recorded: the frontier and the flights as lists, and where each stands in its list.
  std::vector<Position> frontier;
  IdMap<Position, std::uint32_t> frontier_at;
  std::vector<Slot> flights;
  IdMap<Slot, std::uint32_t> flight_at;
  IdMap<DeviceId, Position> last_on_device;
  IdMap<DeviceId, Nanoseconds> work_done;

  std::uint32_t epochs() const { return static_cast<std::uint32_t>(snapshots.size()); }
  Nanoseconds start_of(Position op) const { return start_of(runs[op]); }
  Nanoseconds end_of(Position op) const { return end_of(runs[op]); }
  template <class Run>
  Nanoseconds start_of(const Run& run) const {
    return snapshots[run.epoch].head + run.start;
  }
  template <class Run>
  Nanoseconds end_of(const Run& run) const {
    return snapshots[run.epoch].head + run.end;
  }
  /// The transfer that brings the tensor to the device; null where there is none.
  const TransferRun* transfer(const DeltaProblem& problem, TensorPosition tensor, DeviceId to) const;
};

}  // namespace trainyard::detail
