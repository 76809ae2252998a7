#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/engine/ready_queue.hpp"
#include "trainyard/simulate/engine/walk_state.hpp"

namespace trainyard::detail {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// Times of an op, relative to the *head* of its epoch; an epoch is the part of a run between two snapshots. A part of
/// the run that is shifted as a whole in time is shifted by changing heads only.
struct OpRun {
  Nanoseconds start, end;
  std::uint32_t epoch;
};
struct TransferRun {
  Nanoseconds start, end;
  std::uint32_t epoch;  // epoch in which it was committed; kNone: not yet
  DeviceId to;          // none: no transfer uses this slot
  TensorPosition tensor;
};

/// The state after some number of commits, as far as the rest of a run depends on it. Times are relative to the head
/// and at least 0, because no remaining task starts earlier.
struct Snapshot {
  Nanoseconds head;             // ready time of the next task, absolute
  std::uint32_t head_task = 0;  // number of the next task
  std::uint32_t committed = 0;  // number of ops
  struct Touched {
    Position op;
    std::uint32_t pending;
    Nanoseconds ready;
  };
  std::vector<Touched> frontier;  // ops not run yet that some input has reached or that wait for nothing
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
  std::vector<Busy> channels;                // channels that are not free at the head
  IdMap<DeviceId, Nanoseconds> work_done;    // total duration of the ops it has run
  IdMap<DeviceId, Position> last_on_device;  // strict: the last op in turn that was committed

  std::size_t bytes() const {
    return sizeof *this + frontier.size() * sizeof(Touched) + flights.size() * sizeof(Flight) +
           channels.size() * sizeof(Busy) + (device_free.size() + work_done.size()) * sizeof(Nanoseconds) +
           last_on_device.size() * sizeof(Position);
  }
};

/// A change of the schedule that is not accepted yet, and its effects before the restart.
struct Change {
  /// An op whose device or turn changes. Until it is committed, the run differs from the old one.
  struct Op {
    Position op;
    DeviceId old_device, new_device;
    Position old_turn_after;
    bool moved = false;
    // At the restart: number of missing inputs, and latest arrival of the others.
    std::uint32_t pending = 0;
    Nanoseconds ready = {};
  };
  std::vector<Op> ops;
  /// A transfer that appears or disappears while its producer is not run again.
  struct Edit {
    ChannelId channel;  // none: it occupies no channel
    TensorPosition tensor;
    DeviceId to;
    bool add;
    Nanoseconds sent;        // end of the producer
    Nanoseconds start, end;  // if added
    Nanoseconds free_after;  // time at which the channel becomes free after it
    Slot next;               // next transfer on the channel; none: it is the last, or the next is edited too
  };
  std::vector<Edit> edits;  // by (channel, position in its order)
  std::uint32_t restart = 0;
  std::uint32_t first_match = 0;  // the runs cannot meet before this snapshot
};

/// Working memory of one delta simulation: the current run, and the run of a change.
struct DeltaState {
  DeltaState(const DeltaProblem& problem, Policy policy);

  /// Between runs, ops and transfers are in their initial state: each run cleans up after itself.
  WalkState work;
  ReadyQueues queues;
  struct Flying {
    TensorPosition tensor;  // none: the transfer is not in the queue
    DeviceId from;
    Nanoseconds ready;
  };
  IdMap<Slot, Flying> flying;

  /// Number of tasks that an op waits for before any has ended; kNone if it waits for none.
  IdMap<Position, std::uint32_t> reset;
  /// strict: the ops of non-zero duration before and after this one in the order of its device.
  IdMap<Position, Position> turn_after, turn_before;
  bool strict;
  IdMap<DeviceId, Nanoseconds> device_work;  // total duration of its ops
  IdMap<Position, std::uint8_t> changed;     // whether it is in change.ops

  // The current run.
  std::uint32_t spacing = 64;  // number of ops between two snapshots
  IdMap<Position, OpRun> runs;
  IdMap<Slot, TransferRun> transfers;
  IdMap<ChannelId, std::vector<Slot>> channel_order;  // the transfers on channels in closed form
  std::vector<Snapshot> snapshots;
  std::vector<Nanoseconds> epoch_latest;                // latest end in the epoch, relative to its head
  std::vector<Nanoseconds> latest_before, latest_from;  // by snapshot, absolute; one entry more than snapshots
  Nanoseconds makespan;

  // The run of the change.
  Change change;
  std::vector<Position> committed;  // in this order; entries before the restart are stale
  std::uint32_t count = 0;
  std::uint32_t meets = 0;  // snapshot from which it is the current run, shifted; snapshots.size(): none
  Nanoseconds shift;
  IdMap<Position, OpRun> new_runs;
  IdMap<Slot, TransferRun> new_transfers;
  std::vector<Snapshot> new_snapshots;
  std::vector<Nanoseconds> new_epoch_latest;
  // While the run is recorded: the frontier and the flights as lists, and the index of each entry in its list.
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
  /// The transfer that brings the tensor to the device; null if there is none.
  const TransferRun* transfer(const DeltaProblem& problem, TensorPosition tensor, DeviceId to) const;
};

}  // namespace trainyard::detail
