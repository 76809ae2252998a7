#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// State of a run that every commit-ordered engine keeps: how far each op, device and channel is.
struct WalkState {
  explicit WalkState(const DenseProblem& problem);

  /// All that a walk touches per edge, in one quarter of a cache line.
  struct Op {
    Nanoseconds ready;  // the latest of what has arrived so far
    std::uint32_t pending;
    DeviceId device;
  };
  IdMap<Position, Op> ops;
  IdMap<DeviceId, Nanoseconds> device_free;
  IdMap<ChannelId, Nanoseconds> channel_free;
  std::vector<Position> instant;  // ops of zero duration that are to be finished now

  /// Per device: the tensor that was last sent there (or is made there), and when it is there. One comparison tells a
  /// consumer's edge from the first one to its device.
  struct Sent {
    Nanoseconds arrival;
    TensorPosition tensor;
    Edge last_edge;  // of the consumers there so far, where they are chained
  };
  IdMap<DeviceId, Sent> sent;

  /// The devices that want the tensor at hand, each with a chain of its consumers' edges.
  struct Destination {
    DeviceId device;
    Edge first_edge, last_edge;
  };
  std::vector<Destination> destinations;

  /// A transfer that waits, and the chain of the edges that it serves.
  struct Sending {
    Nanoseconds time;
    Edge first_edge;
    DeviceId to;
    DenseProblem::RouteChannels route;
  };
  IdMap<Slot, Sending> sending;
  IdMap<Edge, Edge> next_edge;
  /// Makes room in `sending` and `next_edge`.
  void prepare_sending(const DenseProblem& problem);

  /// The start of a run: nothing has been sent, and all is free.
  void clear();
};

}  // namespace trainyard::detail
