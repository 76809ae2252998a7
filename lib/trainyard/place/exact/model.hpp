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

/// Some ops of a schedule, to be decided anew while all others stay as they are. Times are those of the schedule.
struct ExactWindow {
  std::vector<OpId> ops;                      // each after those of them that it depends on
  std::vector<std::uint32_t> fixed;           // the device of each, kUnplaced: any
  std::vector<std::int64_t> arrival, beyond;  // op x device: what it reads from elsewhere is there; what follows it
  std::vector<std::int64_t> available;        // when each device is free, and each channel
  std::vector<std::int64_t> held;             // resident bytes of the others on each device
};

/// The problem as branch and bound reads it: plain numbers. Resources are the devices, then the serialized channels.
struct ExactModel {
  ExactModel(const Problem& problem, const Placement& fixed);
  /// The model of a window: ops are counted within it, and tensors are the problem's.
  ExactModel(const Problem& problem, const ExactWindow& window);

  static constexpr std::uint32_t kNoTensor = std::numeric_limits<std::uint32_t>::max();
  struct Input {
    std::uint32_t tensor;  // kNoTensor: a control edge
    std::uint32_t from;    // op

    friend auto operator<=>(const Input&, const Input&) = default;
  };
  struct PairRoute {
    std::vector<std::uint32_t> resources;
    bool broadcast = false;  // the egress alone, and it broadcasts
  };

  Problem problem;
  std::size_t ops, devices, resources;
  std::vector<std::int64_t> duration;  // op x device; -1: never
  std::vector<std::int64_t> shortest;
  std::vector<std::int64_t> gap;  // of a resource
  bool gaps = false;
  std::vector<std::uint32_t> order;         // topological
  std::vector<std::vector<Input>> inputs;   // of an op; several tensors of one producer apart
  std::vector<std::vector<Input>> outputs;  // the reverse: `from` is the reader
  std::vector<PairRoute> routes;            // device x device
  std::vector<std::int64_t> head, tail;     // chains_with_transfers

  std::vector<std::vector<std::uint32_t>> group_ops;
  std::vector<std::vector<std::uint32_t>> able;  // devices of a group
  std::vector<std::uint32_t> group_order;        // fixed ones first, then by the topological order
  std::size_t fixed_groups = 0;
  std::vector<std::int64_t> group_bytes, capacity;  // resident; of a device (largest number: unlimited)
  std::vector<std::uint32_t> twin;                  // the lowest device that this one is interchangeable with
  bool limited = false;                             // some device has a capacity
  // The window's own; empty otherwise.
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
  std::vector<std::uint32_t> add_resources();  // of channels
};

/// True if to swap the devices changes nothing: durations, memory, gaps, and the channels of all routes but for their
/// numbers.
bool interchangeable(const ExactModel& model, std::size_t a, std::size_t b);

}  // namespace trainyard::detail
