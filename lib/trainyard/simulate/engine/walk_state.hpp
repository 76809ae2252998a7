#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// State of a run that all commit-ordered engines keep: the progress of each op, device and channel.
struct WalkState {
  explicit WalkState(const DenseProblem& problem);

  /// All data that a walk accesses per edge, in a quarter of a cache line.
  struct Op {
    Nanoseconds ready;  // latest arrival so far
    std::uint32_t pending;
    DeviceId device;
  };
  IdMap<Position, Op> ops;
  IdMap<DeviceId, Nanoseconds> device_free;
  IdMap<ChannelId, Nanoseconds> channel_free;
  std::vector<Position> instant;  // ops of zero duration to be finished now

  /// For each device, the tensor that was last sent to it (or made there) and its arrival time. One comparison
  /// distinguishes the first edge to a device from later ones.
  struct Sent {
    Nanoseconds arrival;
    TensorPosition tensor;
    Edge last_edge;  // last edge of the chain of consumers there, if they are chained
  };
  IdMap<DeviceId, Sent> sent;

  /// The devices that need the current tensor, each with a chain of its consumers' edges.
  struct Destination {
    DeviceId device;
    Edge first_edge, last_edge;
  };
  std::vector<Destination> destinations;

  /// A waiting transfer and the chain of the edges that it serves.
  struct Sending {
    Nanoseconds time;
    Edge first_edge;
    DeviceId to;
    DenseProblem::RouteChannels route;
  };
  IdMap<Slot, Sending> sending;
  IdMap<Edge, Edge> next_edge;
  /// Allocates `sending` and `next_edge`.
  void prepare_sending(const DenseProblem& problem);

  /// Resets to the start of a run: nothing has been sent, and everything is free.
  void clear();
};

}  // namespace trainyard::detail
