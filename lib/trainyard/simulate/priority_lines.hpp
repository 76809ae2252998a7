#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace trainyard::detail {

/// A number that orders as the priority does, most urgent first: ascending where the priority descends.
inline std::uint64_t urgency_key(double priority) {
  const auto bits = std::bit_cast<std::uint64_t>(priority == 0 ? 0.0 : priority);  // -0 is 0
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  // A positive double's bits ascend with its value; a negative one's descend.
  return bits & kSign ? bits : ~bits & ~kSign;
}

/// A waiting task's place in line: the smallest is first.
struct Waiting {
  std::uint64_t urgency = 0;  // urgency_key; 0 for all under fifo
  std::int64_t ready = 0;
  std::uint32_t task = 0;

  friend auto operator<=>(const Waiting&, const Waiting&) = default;
};

/// Something that may have to be looked at at a time; the order within one instant is immaterial.
struct Wake {
  std::int64_t time;
  std::uint32_t what;
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
  void push(const Entry& entry) {
    std::size_t at = size_++;
    while (at > 0) {
      const std::size_t parent = (at - 1) / 2;
      if (!Before{}(entry, begin_[parent])) break;
      begin_[at] = begin_[parent];
      at = parent;
    }
    begin_[at] = entry;
  }
  void pop() {
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

struct EarlierWake {
  bool operator()(const Wake& a, const Wake& b) const { return a.time < b.time; }
};

/// What is to be looked at next: a heap of four children per node. As in PackedHeap, what is taken leaves a hole at the
/// root, which the next push fills: most looks at a device lead to the next one at it.
class WakeHeap {
 public:
  void clear() {
    wakes_.assign(1, kNothing);
    size_ = 0;
    hole_ = false;
  }
  void push(const Wake& wake) {
    if (hole_) {
      hole_ = false;
      sink(wake);
      return;
    }
    std::size_t at = size_++;
    if (wakes_.size() < size_ + 4) wakes_.resize(size_ + 4, kNothing);  // sink() looks at four children
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (wakes_[parent].time <= wake.time) break;
      wakes_[at] = wakes_[parent];
      at = parent;
    }
    wakes_[at] = wake;
  }
  /// When the first one is due; the end of time where there is none.
  std::int64_t first_time() {
    fill_hole();
    return wakes_[0].time;
  }
  /// False where there is none.
  bool take(Wake& wake) {
    fill_hole();
    if (size_ == 0) return false;
    wake = wakes_[0];
    hole_ = true;
    return true;
  }

 private:
  static constexpr Wake kNothing{std::numeric_limits<std::int64_t>::max(), 0};

  void fill_hole() {
    if (!hole_) return;
    hole_ = false;
    const Wake last = wakes_[--size_];
    wakes_[size_] = kNothing;
    if (size_ > 0) sink(last);
  }
  void sink(const Wake& wake) {
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

  std::vector<Wake> wakes_;  // and four that are nothing
  std::size_t size_ = 0;
  bool hole_ = false;
};

/// The queues of policy priority. Devices: a line of ops that are ready by the time the device is free, and one of
/// those known to become ready later; in slices of two shared arrays, whose lengths the placement gives. Channels:
/// pairing heaps (Fredman et al. 1986) over a pool of nodes, since a transfer may stand in several lines, nobody knows
/// beforehand how many will, and most lines are empty.
///
/// Own heaps rather than Boost.Heap: what stands in thousands of mostly empty lines must not allocate, and a run must
/// not free them one by one.
struct PriorityLines {
  struct Device {
    SliceHeap<Waiting, std::less<>> ready;
    SliceHeap<Wake, EarlierWake> future;
    std::int64_t wake = 0;  // when it is to be looked at; kNever: not at all
  };
  std::vector<Device> devices;
  std::vector<Waiting> ready_slots;
  std::vector<Wake> future_slots;
  std::vector<std::uint64_t> urgency;  // by position

  struct Node {
    Waiting waiting;
    std::uint32_t child, sibling;
  };
  std::vector<Node> nodes;
  std::vector<std::uint32_t> first_in_line;  // by channel: the root
  std::vector<std::int64_t> channel_wake;    // when it is to be looked at; kNever: not at all
  std::vector<std::uint32_t> free_nodes;
  std::vector<std::uint8_t> touched_flag;
  std::vector<std::uint32_t> touched;  // channels to look at before time goes on
  WakeHeap wakes;
  std::vector<std::uint32_t> coming;  // by channel: transfers that will stand in line when they are ready

  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::uint32_t merge(std::uint32_t a, std::uint32_t b) {
    if (a == kNobody) return b;
    if (b == kNobody) return a;
    if (nodes[b].waiting < nodes[a].waiting) std::swap(a, b);
    nodes[b].sibling = nodes[a].child;
    nodes[a].child = b;
    return a;
  }
  void enter(std::uint32_t channel, const Waiting& waiting) {
    std::uint32_t node = 0;
    if (free_nodes.empty()) {
      node = static_cast<std::uint32_t>(nodes.size());
      nodes.push_back({});
    } else {
      node = free_nodes.back();
      free_nodes.pop_back();
    }
    nodes[node] = {waiting, kNobody, kNobody};
    first_in_line[channel] = merge(first_in_line[channel], node);
  }
  const Waiting& first(std::uint32_t channel) const { return nodes[first_in_line[channel]].waiting; }
  bool nobody(std::uint32_t channel) const { return first_in_line[channel] == kNobody; }
  /// Takes the first one out: its children are merged in pairs, then the pairs from the last to the first.
  void leave(std::uint32_t channel) {
    const std::uint32_t root = first_in_line[channel];
    free_nodes.push_back(root);
    std::uint32_t pairs = kNobody;
    for (std::uint32_t child = nodes[root].child; child != kNobody;) {
      const std::uint32_t a = child, b = nodes[a].sibling;
      child = b == kNobody ? kNobody : nodes[b].sibling;
      nodes[a].sibling = kNobody;
      if (b != kNobody) nodes[b].sibling = kNobody;
      const std::uint32_t pair = merge(a, b);
      nodes[pair].sibling = pairs;
      pairs = pair;
    }
    std::uint32_t line = kNobody;
    while (pairs != kNobody) {
      const std::uint32_t next = nodes[pairs].sibling;
      nodes[pairs].sibling = kNobody;
      line = merge(line, pairs);
      pairs = next;
    }
    first_in_line[channel] = line;
  }
};

}  // namespace trainyard::detail
