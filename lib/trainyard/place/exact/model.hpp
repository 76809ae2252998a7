#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::detail {

inline constexpr std::uint32_t kUnplaced = std::numeric_limits<std::uint32_t>::max();

/// Ops of a schedule that are placed and ordered again while all others stay. Times are those of the schedule.
struct ExactWindow {
  std::vector<OpId> ops;                      // in topological order
  std::vector<std::uint32_t> fixed;           // device of each op; kUnplaced: any
  std::vector<std::int64_t> arrival, beyond;  // op x device: arrival of outside inputs; chain outside that follows
  std::vector<std::int64_t> available;        // when each device, then each channel, is free
  std::vector<std::int64_t> held;             // resident bytes of the ops outside, by device
};

/// The problem in plain numbers, for branch and bound. Resources are the devices, then the serialized channels.
struct ExactModel {
  ExactModel(const Problem& problem, const Placement& fixed);
  /// The model of a window. Ops are numbered within the window, tensors as in the problem.
  ExactModel(const Problem& problem, const ExactWindow& window);

  static constexpr std::uint32_t kNoTensor = std::numeric_limits<std::uint32_t>::max();
  struct Input {
    std::uint32_t tensor;  // kNoTensor: a control edge
    std::uint32_t from;    // op

    friend auto operator<=>(const Input&, const Input&) = default;
  };
  struct PairRoute {
    std::vector<std::uint32_t> resources;
    bool broadcast = false;  // one link with one channel, which broadcasts
  };

  Problem problem;
  std::size_t ops, devices, resources;
  std::vector<std::int64_t> duration;  // op x device; -1: cannot run
  std::vector<std::int64_t> shortest;
  std::vector<std::int64_t> gap;  // of a resource
  bool gaps = false;
  std::vector<std::uint32_t> order;         // topological
  std::vector<std::vector<Input>> inputs;   // of an op; one entry per tensor, even of one producer
  std::vector<std::vector<Input>> outputs;  // the reverse: `from` is the reader
  std::vector<PairRoute> routes;            // device x device
  std::vector<std::int64_t> head, tail;     // chains_with_transfers

  std::vector<std::vector<std::uint32_t>> group_ops;
  std::vector<std::vector<std::uint32_t>> able;  // devices of a group
  std::vector<std::uint32_t> group_order;        // fixed ones first; each part in topological order
  std::size_t fixed_groups = 0;
  std::vector<std::int64_t> group_bytes, capacity;  // resident; of a device (int64 maximum: unlimited)
  std::vector<std::uint32_t> twin;                  // lowest device that this one is interchangeable with
  bool limited = false;                             // some device has a capacity
  // For a window only; otherwise empty.
  std::vector<std::int64_t> arrival, beyond;  // op x device
  std::vector<std::int64_t> available;        // of a resource
  std::vector<std::int64_t> held;             // of a device

  std::int64_t time(std::size_t op, std::size_t device) const { return duration[op * devices + device]; }
  const PairRoute& route(std::size_t from, std::size_t to) const { return routes[from * devices + to]; }
  std::int64_t arrives(std::size_t op, std::size_t device) const {
    return arrival.empty() ? 0 : std::max(arrival[op * devices + device], available[device]);
  }
  std::int64_t follows(std::size_t op, std::size_t device) const {
    return beyond.empty() ? 0 : beyond[op * devices + device];
  }
  std::int64_t transfer(std::uint32_t tensor, std::size_t from, std::size_t to) const {
    return problem.transfer_time(TensorId{tensor}, DeviceId{from}, DeviceId{to}).count;
  }

 private:
  std::vector<std::uint32_t> add_resources();  // by channel; the maximum: not serialized
};

/// Whether swapping the two devices changes nothing: durations, memory and gaps are equal, and so are the channels of
/// all routes, up to renumbering.
bool interchangeable(const ExactModel& model, std::size_t a, std::size_t b);

}  // namespace trainyard::detail
