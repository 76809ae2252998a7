#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/delta_problem.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// Times on record are relative to the *head* of an epoch: what comes between two snapshots. A part of the run that
/// moves in time as a whole moves by its heads alone.
struct OpRun {
  std::int64_t start, end;
  std::uint32_t epoch;
};
struct TransferRun {
  std::int64_t start, end;
  std::uint32_t epoch;       // in which it was committed
  std::uint32_t to = kNone;  // kNone: there is none in this slot
  std::uint32_t tensor = kNone;
};

/// All that the rest of a run depends on, after some number of commits. Times are relative to the head, and none is
/// before it: nothing that is still to come starts earlier.
struct Snapshot {
  std::int64_t head = 0;        // ready time of the first task to come, absolute
  std::uint32_t head_task = 0;  // and its number
  std::uint32_t committed = 0;  // ops
  struct Touched {
    std::uint32_t op, pending;
    std::int64_t ready;
  };
  std::vector<Touched> frontier;  // ops that something has reached (or that wait for nothing), and not yet run
  struct Flight {
    std::uint32_t tensor, from, to;
    std::int64_t ready;
  };
  std::vector<Flight> flights;  // transfers in the queue
  std::vector<std::int64_t> device_free;
  struct Busy {
    std::uint32_t channel;
    std::int64_t free;
  };
  std::vector<Busy> channels;                 // those that are not free at the head
  std::vector<std::int64_t> work_done;        // by device, of its ops
  std::vector<std::uint32_t> last_on_device;  // strict: the last op in turn that was committed

  std::size_t bytes() const {
    return sizeof *this + frontier.size() * sizeof(Touched) + flights.size() * sizeof(Flight) +
           device_free.size() * sizeof(std::int64_t) + channels.size() * sizeof(Busy) +
           work_done.size() * sizeof(std::int64_t) + last_on_device.size() * sizeof(std::uint32_t);
  }
};

/// One change of the schedule, not yet accepted, and where it makes a difference.
struct Change {
  /// An op whose device or turn changes: until it is committed, the run is not the old one.
  struct Op {
    std::uint32_t op, old_device, new_device;
    std::uint32_t old_turn_after, old_reset;
    bool moved;
    // At the restart: how many of its inputs are missing, and the latest of those that are not.
    std::uint32_t pending;
    std::int64_t ready;
  };
  std::vector<Op> ops;
  /// A transfer that appears or disappears, of a producer that need not run again.
  struct Edit {
    std::uint32_t channel, tensor, to;
    bool add;
    std::int64_t sent;        // end of the producer
    std::int64_t start, end;  // added
    std::int64_t free_after;  // of the channel
    std::uint32_t next;       // slot of the next transfer on the channel; kNone: there is none, or it is edited too
  };
  std::vector<Edit> edits;  // by (channel, place in its order)
  std::uint32_t restart = 0;
  std::uint32_t first_match = 0;  // before this snapshot the runs cannot have met
};

/// What one delta simulation writes.
struct DeltaState {
  DeltaState(const DeltaProblem& problem, Policy policy);

  /// Between runs, ops and transfers are as before the first task: a run cleans up behind itself.
  Workspace work;
  struct Flying {
    std::uint32_t tensor = kNone, from = kNone;
    std::int64_t ready = 0;
  };
  std::vector<Flying> flying;  // by slot: transfers in the queue; tensor kNone: not there

  /// What an op waits for before anything has reached it; kNone where that is nothing.
  std::vector<std::uint32_t> reset;
  /// strict: the ops of non-zero duration before and after this one on its device.
  std::vector<std::uint32_t> turn_after, turn_before;
  bool strict;
  std::vector<std::int64_t> device_work;  // of each device: its ops' durations
  std::vector<std::uint8_t> changed;      // by op: it is one of change.ops

  // The run on record.
  std::uint32_t spacing = 64;  // ops between two snapshots
  std::vector<OpRun> runs;
  std::vector<TransferRun> transfers;                     // by slot
  std::vector<std::vector<std::uint32_t>> channel_order;  // slots, of channels in closed form
  std::vector<Snapshot> snapshots;
  std::vector<std::int64_t> epoch_latest;                // relative to the head
  std::vector<std::int64_t> latest_before, latest_from;  // by snapshot, absolute; with one past the end
  std::int64_t makespan = 0;

  // The run of the change.
  Change change;
  std::vector<std::uint32_t> committed;  // ops, in this order; those before the restart are stale
  std::uint32_t count = 0;
  std::uint32_t meets = 0;  // the snapshot from which on it is the run on record, shifted; snapshots.size(): none
  std::int64_t shift = 0;
  std::vector<OpRun> new_runs;
  std::vector<TransferRun> new_transfers;
  std::vector<Snapshot> new_snapshots;
  std::vector<std::int64_t> new_epoch_latest;
  // While it is recorded: the frontier and the flights as lists.
  std::vector<std::uint32_t> frontier, frontier_at, flights, flight_at, last_on_device;
  std::vector<std::int64_t> work_done;

  std::uint32_t epochs() const { return static_cast<std::uint32_t>(snapshots.size()); }
  std::int64_t start_of(std::uint32_t op) const { return snapshots[runs[op].epoch].head + runs[op].start; }
  std::int64_t end_of(std::uint32_t op) const { return snapshots[runs[op].epoch].head + runs[op].end; }
  std::int64_t start_of(const TransferRun& run) const { return snapshots[run.epoch].head + run.start; }
  std::int64_t end_of(const TransferRun& run) const { return snapshots[run.epoch].head + run.end; }
  /// The transfer that brings the tensor to the device; null where there is none.
  const TransferRun* transfer(const DeltaProblem& problem, std::uint32_t tensor, std::uint32_t to) const;
};

}  // namespace trainyard::detail
