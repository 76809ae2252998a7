#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/engine/id_array.hpp"

namespace trainyard::detail {

/// Index of an op in the order in which the engines walk the graph.
using Position = Id<struct PositionTag>;
/// Index of a tensor in that order: tensors are numbered along with their producers.
using TensorPosition = Id<struct TensorPositionTag>;
/// A tensor and one of its consumers.
using Edge = Id<struct EdgeTag>;
/// A tensor and one of the devices that it may be sent to.
using Slot = Id<struct SlotTag>;

/// The graph by position, in flat arrays owned elsewhere.
struct DenseGraph {
  const std::uint32_t* first_output = nullptr;    // ops + 1: tensors
  const std::uint32_t* first_consumer = nullptr;  // tensors + 1: edges
  const OpId* consumer_at = nullptr;              // edges: positions
  const std::uint32_t* first_before = nullptr;    // ops + 1: control edges; null if there are none
  const OpId* before_at = nullptr;                // control edges: positions

  IdRange<TensorPosition> outputs(Position op) const {
    return {first_output[op.index()], first_output[op.index() + 1]};
  }
  IdRange<Edge> edges(TensorPosition tensor) const {
    return {first_consumer[tensor.index()], first_consumer[tensor.index() + 1]};
  }
  Position consumer(Edge edge) const { return Position{consumer_at[edge.index()].index()}; }
  /// Calls visit(later) for each op that must come after this one.
  template <class Visit>
  [[gnu::always_inline]] void each_before(Position op, const Visit& visit) const {
    if (first_before == nullptr) return;
    const OpId* const last = before_at + first_before[op.index() + 1];
    for (const OpId* at = before_at + first_before[op.index()]; at != last; ++at) visit(Position{at->index()});
  }
};

/// The problem as the commit-ordered engines use it: ops in topological order, edges and times in flat arrays, and the
/// way its channels are shared. Immutable; many threads may read it.
///
/// If the graph's ids are in topological order, positions equal ids and the arrays are those of the graph. Otherwise
/// they are copies in breadth-first order, so that neighbours in time are neighbours in memory (six times faster with
/// 10^6 randomly numbered ops).
struct DenseProblem {
  explicit DenseProblem(Problem problem);
  // The arrays may point into the object.
  DenseProblem(const DenseProblem&) = delete;
  DenseProblem& operator=(const DenseProblem&) = delete;

  Problem problem;
  std::uint32_t ops = 0, tensors = 0, edges = 0, devices = 0, channels = 0;
  IdRange<Position> positions() const { return IdRange<Position>{ops}; }

  DenseGraph graph;
  IdMap<Position, std::uint32_t> pending;  // number of inputs and control dependencies
  std::vector<Position> sources;           // ops with pending 0, by ascending op id
  const Nanoseconds* duration = nullptr;   // ops x columns
  std::size_t columns = 0;
  IdMap<DeviceId, std::uint32_t> column;
  IdMap<DeviceId, Nanoseconds> device_gap;
  IdMap<ChannelId, Nanoseconds> channel_gap;
  bool channel_gaps = false;  // whether some channel has a gap

  // Maps between positions and ids; empty if they are equal.
  bool renumbered = false;
  IdMap<OpId, Position> position_of;
  IdMap<Position, OpId> op_at;
  IdMap<TensorPosition, TensorId> tensor_at;
  IdMap<TensorPosition, Slot> slot_base;  // the first of the tensor's slots

  Position position(OpId op) const { return renumbered ? position_of[op] : Position{op.index()}; }
  OpId op_id(Position at) const { return renumbered ? op_at[at] : OpId{at.index()}; }
  TensorId tensor_id(TensorPosition tensor) const { return renumbered ? tensor_at[tensor] : TensorId{tensor.index()}; }

  /// Slot of a transfer of the tensor. A tensor has at most as many transfers as consumers, numbered from here by
  /// ascending destination. So slots ascend by (producer, tensor, destination): the order in which the rules break
  /// ties.
  Slot slot(TensorPosition tensor, std::size_t number = 0) const {
    return Slot{(renumbered ? slot_base[tensor].index() : graph.first_consumer[tensor.index()]) + number};
  }
  IdRange<Slot> slots(TensorPosition tensor) const {
    const std::size_t first = slot(tensor).index();
    return {first, first + graph.edges(tensor).size()};
  }

  Nanoseconds duration_of(Position op, DeviceId device) const {
    return duration[op.index() * columns + column[device]];
  }
  /// Summary of a route: its latency, its bandwidth as a column of byte_time, and its first channel, which is its only
  /// channel if the pair is closed; none if the route has no channels.
  struct Pair {
    Nanoseconds latency;
    std::uint32_t rate = 0;
    ChannelId channel;
  };
  [[gnu::always_inline]] const Pair& pair(DeviceId from, DeviceId to) const { return pairs_[route_at(from, to)]; }
  Nanoseconds transfer_time(TensorPosition tensor, const Pair& pair) const {
    return pair.latency + byte_time[tensor_id(tensor).index() * rates + pair.rate];
  }
  Nanoseconds transfer_time(TensorPosition tensor, DeviceId from, DeviceId to) const {
    return transfer_time(tensor, pair(from, to));
  }
  const Nanoseconds* byte_time = nullptr;  // tensor ids x rates
  std::size_t rates = 0;

  /// Upper bound on the end of any task in any schedule: the sum of all durations, transfer times and gaps.
  Nanoseconds horizon;
  /// Mean time between two ops that become ready, if all devices were busy.
  Nanoseconds mean_gap{1};
  /// Whether some op may take no time on some device; the ops of collectives take none.
  bool zero_durations = false;
  bool collectives = false;

  /// Order of transfers on channels under fifo.
  enum class Links : std::uint8_t {
    pairs,     // every channel serves one ordered pair of devices: its transfers are in the order of their producers,
               // and their times are known as soon as the producer's end is known
    egresses,  // every channel has one sending device: as with pairs, but transfers of one tensor share a channel
    queued,    // several devices feed a channel, or a route has several: transfers enter the queue like ops
  };
  Links links = Links::pairs;
  /// Under Links::queued: whether the pair's route is as simple as under the other two.
  bool closed(DeviceId from, DeviceId to) const { return (pair_flags_[route_at(from, to)] & kClosed) != 0; }
  /// Whether the route is a broadcasting egress alone: one transfer per tensor serves all such destinations.
  bool broadcast(DeviceId from, DeviceId to) const { return (pair_flags_[route_at(from, to)] & kBroadcast) != 0; }
  /// All channels of a pair's route: their place in route_channels_, or the two devices of a fabric.
  struct RouteChannels {
    std::uint32_t first = 0, last = 0;
  };
  RouteChannels route(DeviceId from, DeviceId to) const {
    if (fabric_ == nullptr) return routes_[route_at(from, to)];
    return {static_cast<std::uint32_t>(from.index()), static_cast<std::uint32_t>(to.index())};
  }
  Hops<ChannelId> channels_of(RouteChannels route) const {
    if (fabric_ != nullptr) return fabric_->channels<ChannelId>(route.first, route.last);
    return Hops<ChannelId>{{route_channels_.data() + route.first, route_channels_.data() + route.last}};
  }
  /// Under Links::queued: whether every transfer between any two devices waits for some channel and takes time.
  bool all_wait = false;
  /// Whether every route fits a ShortRoute, which repeats its first channel if the route has fewer.
  bool short_routes = false;
  struct ShortRoute {
    std::array<ChannelId, 4> channels{};
  };
  /// The channels of a route that has at least one.
  ShortRoute short_route(DeviceId from, DeviceId to) const {
    return fabric_ != nullptr ? padded(fabric_->channels<ChannelId>(from.index(), to.index()))
                              : short_routes_[route_at(from, to)];
  }
  /// Whether some egress broadcasts.
  bool broadcasts = false;

 protected:  // for EditedProblem
  void find_positions();
  /// Points `graph` and `duration` to the object's own copies.
  void point_to_own();

  std::vector<std::uint32_t> own_first_output_, own_first_consumer_, own_first_before_;
  std::vector<OpId> own_consumer_, own_before_;  // positions, stored as OpId like the graph's rows
  std::vector<Nanoseconds> own_duration_;
  static constexpr std::uint8_t kClosed = 1, kBroadcast = 2;
  std::vector<std::uint8_t> pair_flags_;

 private:
  static ShortRoute padded(const Hops<ChannelId>& channels) {
    ShortRoute route;
    for (std::size_t i = 0; i < route.channels.size(); ++i) route.channels[i] = channels[i < channels.size() ? i : 0];
    return route;
  }
  void find_short_routes();
  void find_links();
  void find_fabric_links(const FabricRoutes& fabric);
  bool sends_at_once() const;
  /// Index of the route in pairs_, pair_flags_ and routes_: by way in a fabric, by source if all routes of a source are
  /// equal, otherwise by pair.
  std::size_t route_at(DeviceId from, DeviceId to) const {
    if (fabric_ != nullptr) return fabric_->way(from.index(), to.index());
    return from.index() * routes_of_source_ + (to.index() & destination_mask_);
  }

  std::vector<Pair> pairs_;
  std::vector<RouteChannels> routes_;
  const FabricRoutes* fabric_ = nullptr;
  std::size_t routes_of_source_ = 1;
  std::uint32_t destination_mask_ = 0;
  std::vector<ChannelId> route_channels_;
  std::vector<ShortRoute> short_routes_;
};

/// Calls run(std::integral_constant) with the form of the links, or a flag, as a compile-time constant.
template <class Run>
auto with_links(DenseProblem::Links links, const Run& run) {
  using Links = DenseProblem::Links;
  switch (links) {
    case Links::pairs:
      return run(std::integral_constant<Links, Links::pairs>{});
    case Links::egresses:
      return run(std::integral_constant<Links, Links::egresses>{});
    case Links::queued:
      break;
  }
  return run(std::integral_constant<Links, Links::queued>{});
}
template <class Run>
auto with_flag(bool flag, const Run& run) {
  return flag ? run(std::true_type{}) : run(std::false_type{});
}

}  // namespace trainyard::detail
