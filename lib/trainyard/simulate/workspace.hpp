#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/priority_lines.hpp"
#include "trainyard/simulate/ready_queue.hpp"

namespace trainyard::detail {

/// What the commit-ordered engines write while they run: sized once for a problem, so that a run allocates nothing.
/// One per thread.
struct Workspace {
  explicit Workspace(const DenseProblem& problem);

  /// All that a walk touches per edge, in one quarter of a cache line.
  struct OpState {
    std::int64_t ready;  // the latest of what has arrived so far
    std::uint32_t pending;
    std::uint32_t device;
  };
  std::vector<OpState> ops;  // by position
  std::vector<std::int64_t> device_free, channel_free;

  /// Per device: the tensor that was last sent there (or is made there), and when it is there. One comparison tells a
  /// consumer's edge from the first one to its device.
  struct Sent {
    std::int64_t arrival;
    std::uint32_t tensor;
    std::uint32_t last_edge;  // of the consumers there so far, where they are chained
  };
  std::vector<Sent> sent;
  static constexpr std::uint32_t kNoTensor = ~std::uint32_t{0};

  PackedHeap heap;
  TimingWheel<12> wheel;
  TimingWheel<16> large_wheel;

  std::vector<std::uint32_t> receivers;  // devices, room for all: those that want the tensor at hand

  // Under priorities, and where runs are changed: transfers that wait, by slot, and a chain of the edges that each
  // serves.
  struct Sending {
    std::int64_t time;
    std::uint32_t first_edge, to;
    DenseProblem::RouteChannels route;
  };
  std::vector<Sending> sending;
  std::vector<std::uint32_t> next_edge;
  struct Destination {
    std::uint32_t device, first_edge, last_edge;
  };
  std::vector<Destination> destinations;  // of the tensor at hand
  std::vector<std::uint32_t> instant;     // ops of zero duration that are to be finished now

  // Strict orders: what each device runs next, and the devices to look at.
  std::vector<const OpId*> next_in_order, end_of_order;
  std::vector<std::uint32_t> devices_to_run;
  std::vector<std::uint8_t> to_run;

  PriorityLines lines;  // policy priority

  /// What a run leaves where it was asked to record.
  struct Record {
    struct Transfer {
      std::int64_t ready, start, end;
      std::uint32_t to;
    };
    IdMap<OpId, Span> ops;
    std::vector<std::uint32_t> started;       // ids of ops that take time: those of one device by their starts
    bool in_order = false;                    // `started` is filled in
    std::vector<std::uint32_t> transfers_of;  // tensor id -> how many transfers
    std::vector<Transfer> transfers;          // by slot: DenseProblem::slot() and up, not sorted by destination
  };
  Record record;
  void prepare_record(const DenseProblem& problem);
  /// `sending` and `next_edge`.
  void prepare_sending(const DenseProblem& problem);
};

}  // namespace trainyard::detail
