#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/problem/problem.hpp"

namespace trainyard::detail {

/// The problem as the commit-ordered engines walk it: ops in topological order, edges and times in flat arrays, and
/// what is known of its channels. Immutable; many threads may read it.
///
/// Ops are numbered by *position*. Where the graph's ids are topological already, position and id are the same and the
/// arrays are the graph's own; otherwise they are copies in breadth-first order, because neighbours in time are then
/// neighbours in memory (six times faster at 10^6 randomly numbered ops). Tensors are numbered along with their ops.
struct DenseProblem {
  explicit DenseProblem(Problem problem);
  // The arrays may point into the object.
  DenseProblem(const DenseProblem&) = delete;
  DenseProblem& operator=(const DenseProblem&) = delete;

  Problem problem;
  std::uint32_t ops = 0, tensors = 0, edges = 0, devices = 0, channels = 0;
  std::size_t columns = 0;

  // Edges, by position.
  const std::uint32_t* first_output = nullptr;    // ops + 1: tensors
  const std::uint32_t* first_consumer = nullptr;  // tensors + 1: edges
  const OpId* consumer = nullptr;                 // edges: positions
  const std::uint32_t* first_before = nullptr;    // ops + 1: control edges; null where there are none
  const OpId* before = nullptr;                   // positions
  std::vector<std::uint32_t> pending;             // inputs and ops to come after
  std::vector<std::uint32_t> sources;             // pending 0, by ascending op id
  const Nanoseconds* duration = nullptr;          // ops x columns
  std::vector<std::uint32_t> column;              // by device
  std::vector<std::int64_t> device_gap, channel_gap;

  // Positions and ids; empty where they are the same.
  bool renumbered = false;
  std::vector<std::uint32_t> position_of;  // op id -> position
  std::vector<std::uint32_t> op_at;        // position -> op id
  std::vector<std::uint32_t> tensor_at;    // position of a tensor -> tensor id
  std::vector<std::uint32_t> slot_base;    // tensor -> the first of its transfers' slots (see slot())

  std::uint32_t position(std::size_t op) const { return renumbered ? position_of[op] : static_cast<std::uint32_t>(op); }
  std::uint32_t op_id(std::uint32_t at) const { return renumbered ? op_at[at] : at; }
  TensorId tensor_id(std::uint32_t tensor) const { return TensorId{renumbered ? tensor_at[tensor] : tensor}; }

  /// A tensor has at most as many transfers as consumers. They are numbered from here on by ascending destination, so
  /// that slots ascend by (producer, tensor, destination): the order in which the rules break ties.
  std::uint32_t slot(std::uint32_t tensor) const { return renumbered ? slot_base[tensor] : first_consumer[tensor]; }

  std::int64_t duration_of(std::uint32_t at, std::size_t device) const {
    return duration[at * columns + column[device]].count;
  }
  /// What the engines need of a route: its latency, its bandwidth as a column of byte_time, and the first of its
  /// channels, which is the only one where the pair is closed; kNoChannel where it has none.
  struct Pair {
    std::int64_t latency = 0;
    std::uint32_t rate = 0;
    std::uint32_t channel = kNoChannel;
  };
  static constexpr std::uint32_t kNoChannel = ~std::uint32_t{0};
  const Pair& pair(std::uint32_t from, std::uint32_t to) const { return pairs_[route_at(from, to)]; }
  std::int64_t transfer_time(std::uint32_t tensor, const Pair& pair) const {
    return pair.latency + byte_time[(renumbered ? tensor_at[tensor] : tensor) * rates + pair.rate].count;
  }
  std::int64_t transfer_time(std::uint32_t tensor, std::uint32_t from, std::uint32_t to) const {
    return transfer_time(tensor, pair(from, to));
  }
  const Nanoseconds* byte_time = nullptr;  // tensor ids x rates
  std::size_t rates = 0;

  /// No task ends later, whatever the schedule: all durations, transfers and gaps one after the other.
  std::int64_t horizon = 0;
  /// The mean time between two ops that become ready, were all devices busy.
  std::int64_t mean_gap = 1;
  /// Some op takes no time somewhere.
  bool zero_durations = false;

  /// How transfers get their turn on a channel under fifo.
  enum class Links : std::uint8_t {
    pairs,     // every channel serves one ordered pair of devices: transfers take it in the order of their producers,
               // known the moment the producer's end is known
    egresses,  // every channel serves one device that sends: the same, but for destinations of one tensor
    queued,    // several devices feed a channel, or a route holds several: transfers enter the queue as ops do
  };
  Links links = Links::pairs;
  /// Under Links::queued: the route of the pair is as simple as under the other two.
  bool closed(std::uint32_t from, std::uint32_t to) const { return (pair_flags_[route_at(from, to)] & kClosed) != 0; }
  /// The route is a broadcasting egress and nothing else: one transfer per tensor serves all such destinations.
  bool broadcast(std::uint32_t from, std::uint32_t to) const {
    return (pair_flags_[route_at(from, to)] & kBroadcast) != 0;
  }
  /// All channels of the pair's route: where they are stored, or the two devices of a fabric.
  struct RouteChannels {
    std::uint32_t first = 0, last = 0;
  };
  RouteChannels route(std::uint32_t from, std::uint32_t to) const {
    return fabric_ != nullptr ? RouteChannels{from, to} : routes_[route_at(from, to)];
  }
  Hops<std::uint32_t> channels_of(RouteChannels route) const {
    if (fabric_ != nullptr) return fabric_->channels<std::uint32_t>(route.first, route.last);
    return Hops<std::uint32_t>{{route_channels_.data() + route.first, route_channels_.data() + route.last}};
  }
  /// Under Links::queued: every transfer, from wherever to wherever, waits for some channel and takes time.
  bool all_wait = false;
  /// No route holds more channels than a ShortRoute has. It repeats the first where there are fewer.
  bool short_routes = false;
  struct ShortRoute {
    std::array<std::uint32_t, 4> channels{};
  };
  /// Of a route that holds some.
  ShortRoute short_route(std::uint32_t from, std::uint32_t to) const {
    return fabric_ != nullptr ? padded(fabric_->channels<std::uint32_t>(from, to)) : short_routes_[route_at(from, to)];
  }
  /// Some egress broadcasts.
  bool broadcasts = false;
  /// Some route holds several channels at once.
  bool held_whole = false;

 protected:  // for EditedProblem
  void find_positions();

  std::vector<std::uint32_t> own_first_output_, own_first_consumer_, own_first_before_;
  std::vector<OpId> own_consumer_, own_before_;
  std::vector<Nanoseconds> own_duration_;
  static constexpr std::uint8_t kClosed = 1, kBroadcast = 2;
  std::vector<std::uint8_t> pair_flags_;

 private:
  static ShortRoute padded(const Hops<std::uint32_t>& channels) {
    ShortRoute route;
    for (std::size_t i = 0; i < route.channels.size(); ++i) route.channels[i] = channels[i < channels.size() ? i : 0];
    return route;
  }
  void find_short_routes();
  void find_links();
  bool sends_at_once() const;
  /// Where the route stands in pairs_, pair_flags_ and routes_: by way of a fabric, by source where all routes of a
  /// source are the same, otherwise by pair.
  std::size_t route_at(std::uint32_t from, std::uint32_t to) const {
    if (fabric_ != nullptr) return static_cast<std::size_t>(fabric_->way(from, to));
    return std::size_t{from} * routes_of_source_ + (to & destination_mask_);
  }

  std::vector<Pair> pairs_;
  std::vector<RouteChannels> routes_;
  const FabricRoutes* fabric_ = nullptr;
  std::size_t routes_of_source_ = 1;
  std::uint32_t destination_mask_ = 0;
  std::vector<std::uint32_t> route_channels_;
  std::vector<ShortRoute> short_routes_;
};

}  // namespace trainyard::detail
