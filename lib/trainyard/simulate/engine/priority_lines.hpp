#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// Maps a priority to a number that ascends as the priority descends, so that the most urgent is least.
inline std::uint64_t urgency_key(double priority) {
  const auto bits = std::bit_cast<std::uint64_t>(priority == 0 ? 0.0 : priority);  // -0 is 0
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  // The bits of a positive double ascend with its value; those of a negative one descend.
  return bits & kSign ? bits : ~bits & ~kSign;
}

/// Sort key of a waiting task; the least goes first. Tasks are ops by id, or transfers by slot.
template <class Task>
struct PlaceInLine {
  std::uint64_t urgency = 0;  // urgency_key
  Nanoseconds ready;
  Task task;

  [[gnu::always_inline]] friend auto operator<=>(const PlaceInLine&, const PlaceInLine&) = default;
};
using OpInLine = PlaceInLine<OpId>;
using TransferInLine = PlaceInLine<Slot>;

/// A time at which a task may be able to start; the order within one instant does not matter.
struct Wake {
  Nanoseconds time;
  std::uint32_t what;  // devices first, then two numbers per slot: it becomes ready; it may be able to start
};

/// An op with its future ready time.
struct FutureOp {
  Nanoseconds time;
  Position op;
};
struct Earlier {
  bool operator()(const FutureOp& a, const FutureOp& b) const { return a.time < b.time; }
};

/// A binary heap in a slice of a shared array.
template <class Entry, class Before>
class SliceHeap {
 public:
  void place(Entry* begin) {
    begin_ = begin;
    size_ = 0;
  }
  bool empty() const { return size_ == 0; }
  const Entry& first() const { return *begin_; }
  [[gnu::always_inline]] void push(const Entry& entry) {
    std::size_t at = size_++;
    while (at > 0) {
      const std::size_t parent = (at - 1) / 2;
      if (!Before{}(entry, begin_[parent])) break;
      begin_[at] = begin_[parent];
      at = parent;
    }
    begin_[at] = entry;
  }
  [[gnu::always_inline]] void pop() {
    const Entry entry = begin_[--size_];
    std::size_t at = 0;
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= size_) break;
      if (child + 1 < size_ && Before{}(begin_[child + 1], begin_[child])) ++child;
      if (!Before{}(begin_[child], entry)) break;
      begin_[at] = begin_[child];
      at = child;
    }
    begin_[at] = entry;
  }

 private:
  Entry* begin_ = nullptr;
  std::size_t size_ = 0;
};

/// The queue of wakes: a heap with four children per node. As in PackedHeap, taking a wake leaves a hole at the root
/// that the next push fills: most wakes of a device lead to its next one.
class WakeHeap {
 public:
  void clear() {
    wakes_.assign(1, kNothing);
    size_ = 0;
    hole_ = false;
  }
  [[gnu::noinline]] void push(const Wake& wake) {
    if (hole_) {
      hole_ = false;
      sink(wake);
      return;
    }
    std::size_t at = size_++;
    if (wakes_.size() < size_ + 4) wakes_.resize(size_ + 4, kNothing);  // sink() reads four children
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (wakes_[parent].time <= wake.time) break;
      wakes_[at] = wakes_[parent];
      at = parent;
    }
    wakes_[at] = wake;
  }
  /// Time of the first wake; the largest time if there is none.
  Nanoseconds first_time() {
    fill_hole();
    return wakes_[0].time;
  }
  /// Takes the first wake; false if there is none.
  bool take(Wake& wake) {
    fill_hole();
    if (size_ == 0) return false;
    wake = wakes_[0];
    hole_ = true;
    return true;
  }

 private:
  static constexpr Wake kNothing{Nanoseconds{std::numeric_limits<std::int64_t>::max()}, 0};

  void fill_hole() {
    if (hole_) fill();
  }
  [[gnu::noinline]] void fill() {
    hole_ = false;
    const Wake last = wakes_[--size_];
    wakes_[size_] = kNothing;
    if (size_ > 0) sink(last);
  }
  [[gnu::always_inline]] void sink(const Wake& wake) {
    Wake* const wakes = wakes_.data();
    std::size_t at = 0;
    for (;;) {
      const std::size_t child = 4 * at + 1;
      if (child >= size_) break;
      const std::size_t ab = child + (wakes[child + 1].time < wakes[child].time ? 1U : 0U);
      const std::size_t cd = child + 2 + (wakes[child + 3].time < wakes[child + 2].time ? 1U : 0U);
      const std::size_t least = wakes[cd].time < wakes[ab].time ? cd : ab;
      if (wakes[least].time >= wake.time) break;
      wakes[at] = wakes[least];
      at = least;
    }
    wakes[at] = wake;
  }

  std::vector<Wake> wakes_;  // followed by four empty entries
  std::size_t size_ = 0;
  bool hole_ = false;
};

/// The queues of policy priority. Each device has a line of ops that are ready by the time it is free, and one of ops
/// known to become ready later; they are slices of two shared arrays, with lengths given by the placement. Channels
/// have pairing heaps (Fredman et al. 1986) over a pool of nodes, because a transfer may wait in several lines, their
/// lengths are not known in advance, and most lines are empty.
///
/// These heaps are used instead of Boost.Heap because thousands of mostly empty lines must neither allocate nor be
/// freed one by one after a run.
struct PriorityLines {
  struct Device {
    SliceHeap<OpInLine, std::less<>> ready;
    SliceHeap<FutureOp, Earlier> future;
    Nanoseconds wake;       // time of the next visit; kNever: none
    std::uint32_t ops = 0;  // number of ops placed there
  };
  IdMap<DeviceId, Device> devices;
  std::vector<OpInLine> ready_slots;
  std::vector<FutureOp> future_slots;
  IdMap<Position, std::uint64_t> urgency;

  using NodeId = Id<struct NodeTag>;
  struct Node {
    TransferInLine waiting;
    NodeId child, sibling;
  };
  IdMap<NodeId, Node> nodes;
  std::vector<NodeId> free_nodes;
  struct Channel {
    NodeId first_in_line;      // root of the heap; none: empty line
    std::uint32_t coming = 0;  // transfers that will join the line when they are ready
  };
  IdMap<ChannelId, Channel> channels;
  IdMap<Slot, std::uint32_t> behind;    // for a waiting task: number of lines in which it is not first
  std::vector<TransferInLine> arrived;  // ready now, but not in line yet; urgencies still to be set
  std::vector<Slot> to_look_at;         // tasks that may be first on free channels; to be examined before time advances
  WakeHeap wakes;

  void clear(const DenseProblem& problem) {
    devices.assign(problem.devices, {});
    ready_slots.resize(problem.ops);
    future_slots.resize(problem.ops);
    urgency.resize(problem.ops);
    nodes.clear();
    free_nodes.clear();
    channels.assign(problem.channels, {});
    behind.resize(problem.edges + (problem.collectives ? problem.ops : 0));
    arrived.clear();
    to_look_at.clear();
    wakes.clear();
  }
  /// Gives each device room for as many entries as it has ops.
  void place_devices() {
    std::size_t first = 0;
    for (Device& device : devices) {
      device.ready.place(ready_slots.data() + first);
      device.future.place(future_slots.data() + first);
      device.wake = kNever;
      first += device.ops;
    }
  }

  static constexpr std::uint32_t kGone = ~std::uint32_t{0};  // value of `behind` for a task that has started
  static constexpr Nanoseconds kNever{std::numeric_limits<std::int64_t>::max()};

  NodeId merge(NodeId a, NodeId b) {
    if (a.is_none()) return b;
    if (b.is_none()) return a;
    if (nodes[b].waiting < nodes[a].waiting) std::swap(a, b);
    nodes[b].sibling = nodes[a].child;
    nodes[a].child = b;
    return a;
  }
  void enter(ChannelId channel, const TransferInLine& waiting) {
    NodeId node{nodes.size()};
    if (free_nodes.empty()) {
      nodes.push_back({});
    } else {
      node = free_nodes.back();
      free_nodes.pop_back();
    }
    nodes[node] = {waiting, {}, {}};
    channels[channel].first_in_line = merge(channels[channel].first_in_line, node);
  }
  const TransferInLine& first(ChannelId channel) const { return nodes[channels[channel].first_in_line].waiting; }
  bool nobody(ChannelId channel) const { return channels[channel].first_in_line.is_none(); }
  /// Removes the first task: its children are merged in pairs, then the pairs from last to first.
  void leave(ChannelId channel) {
    const NodeId root = channels[channel].first_in_line;
    free_nodes.push_back(root);
    NodeId pairs;
    for (NodeId child = nodes[root].child; !child.is_none();) {
      const NodeId a = child, b = nodes[a].sibling;
      child = b.is_none() ? b : nodes[b].sibling;
      nodes[a].sibling = NodeId::none();
      if (!b.is_none()) nodes[b].sibling = NodeId::none();
      const NodeId pair = merge(a, b);
      nodes[pair].sibling = pairs;
      pairs = pair;
    }
    NodeId line;
    while (!pairs.is_none()) {
      const NodeId next = nodes[pairs].sibling;
      nodes[pairs].sibling = NodeId::none();
      line = merge(line, pairs);
      pairs = next;
    }
    channels[channel].first_in_line = line;
  }
};

}  // namespace trainyard::detail
