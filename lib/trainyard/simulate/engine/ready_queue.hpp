#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard::detail {

/// The queues of the commit-ordered engines. Each holds (ready time, task) pairs and returns them by ready time, then
/// by task number. Both kinds are monotone: nothing is inserted before the pair taken last. They return the same
/// sequence, so the choice affects only the speed.
///
/// Measured on the graphs of bench/, as multiples of a topological sweep of the same graph (20,000 ops, 8 and 64
/// devices): the heap below 3.2 and 3.7, the wheel 3.0 and 3.5. The heap is 1.4 times faster on 2 devices, the wheel
/// 1.3 to 1.5 times from 64 devices on. In an event engine with the same rules Boost.Heap's d_ary_heap reached 8.2 and
/// 10.9, its pairing heap 12.5 and 20.1, its Fibonacci heap 14.1 and 20.7. The latter two pay for handles, which are
/// not needed for a task that enters once and never moves.

/// An implicit heap with four children per node, and time and task packed into one 64-bit key. Taking a task leaves a
/// hole at the root that the next insertion fills. Most tasks that end make another one ready, so this saves one of two
/// heap walks. Tasks that become ready in order, such as the followers of a collective, may be kept in a sorted row
/// beside the heap instead: the cost of the heap is mostly mispredicted branches.
class PackedHeap {
 public:
  /// Prepares for task numbers below `tasks`; allocates only if they exceed those of earlier calls.
  void prepare(std::size_t tasks, Nanoseconds /*gap*/) {
    shift_ = bits_for(tasks);
    if (keys_.size() < tasks + kPadding) keys_.resize(tasks + kPadding);
  }
  /// Whether times up to `horizon` leave room for the task in a key.
  static bool fits(std::size_t tasks, Nanoseconds horizon) {
    return bits_for(tasks) + static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(horizon.count))) < 64;
  }

  void clear() {
    size_ = 0;
    hole_ = false;
    std::fill_n(keys_.begin(), kPadding, kNothing);
    row_.clear();
    first_of_row_ = 0;
  }

  void insert(std::uint32_t task, Nanoseconds ready) { insert(key_of(task, ready)); }
  /// Inserts one of several tasks that arrive in ascending order.
  void append(std::uint32_t task, Nanoseconds ready) {
    const std::uint64_t key = key_of(task, ready);
    if (!row_.empty() && key < row_.back()) return insert(key);
    row_.push_back(key);
  }

  /// Takes the first pair; false if the queue is empty. `kAppended`: append() may have been called.
  template <bool kAppended = false>
  bool take(std::uint32_t& task, Nanoseconds& ready) {
    std::uint64_t* const keys = keys_.data();
    if (hole_) {
      const std::uint64_t last = keys[--size_];
      keys[size_] = kNothing;
      hole_ = false;
      if (size_ > 0) sink(last);
    }
    std::uint64_t key = keys[0];
    if (kAppended && !row_.empty() && row_[first_of_row_] < key) {
      key = row_[first_of_row_++];
      if (first_of_row_ == row_.size()) {
        row_.clear();
        first_of_row_ = 0;
      }
    } else {
      if (size_ == 0) return false;
      hole_ = true;
    }
    task = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << shift_) - 1));
    ready = Nanoseconds{static_cast<std::int64_t>(key >> shift_)};
    return true;
  }

 private:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  static constexpr std::size_t kPadding = 8;

  static unsigned bits_for(std::size_t tasks) { return static_cast<unsigned>(std::bit_width(tasks)); }
  std::uint64_t key_of(std::uint32_t task, Nanoseconds ready) const {
    return static_cast<std::uint64_t>(ready.count) << shift_ | task;
  }

  void insert(std::uint64_t key) {
    std::uint64_t* const keys = keys_.data();
    if (hole_) {
      hole_ = false;
      sink(key);
      return;
    }
    std::size_t at = size_++;
    std::fill_n(keys + size_, 4, kNothing);  // sink() reads four children
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (keys[parent] <= key) break;
      keys[at] = keys[parent];
      at = parent;
    }
    keys[at] = key;
  }

  /// Places the key into the hole at the root and sinks it.
  void sink(std::uint64_t key) {
    std::uint64_t* const keys = keys_.data();
    std::size_t at = 0;
    for (;;) {
      const std::size_t child = 4 * at + 1;
      if (child >= size_) break;
      const std::uint64_t a = keys[child], b = keys[child + 1], c = keys[child + 2], d = keys[child + 3];
      const std::size_t ab = child + (b < a ? 1U : 0U), cd = child + 2 + (d < c ? 1U : 0U);
      const std::uint64_t least_ab = b < a ? b : a, least_cd = d < c ? d : c;
      const std::size_t best = least_cd < least_ab ? cd : ab;
      const std::uint64_t least = least_cd < least_ab ? least_cd : least_ab;
      if (least >= key) break;
      keys[at] = least;
      at = best;
    }
    keys[at] = key;
  }

  std::vector<std::uint64_t> keys_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> row_;  // ascending, from first_of_row_ on; empty when all have been taken
  std::size_t first_of_row_ = 0;
  unsigned shift_ = 0;
  bool hole_ = false;
};

/// A timing wheel: buckets of equal width, a bitmap of the used ones and a summary of the bitmap. Buckets are lists of
/// nodes from a pool, which holds only the tasks that wait at once: a few thousand for 10^7 ops. Tasks more than one
/// turn ahead wait in a heap. A bucket with several tasks becomes a heap when it is reached, so that the worst case is
/// O(log n) for any distribution of times.
template <unsigned kBucketBits>
class TimingWheel {
 public:
  /// Prepares for task numbers below `tasks`; allocates in the first call only. `gap` of the first call, the mean time
  /// between two tasks, determines the width of a bucket.
  void prepare(std::size_t tasks, Nanoseconds gap) {
    nodes_.reserve(tasks);  // reserves address space: only used pages take memory
    if (!head_.empty()) return;
    head_.resize(kBuckets);
    used_.assign(kWords, 0);
    summary_.assign(kSummaries, 0);
    // Half the gap, so that a bucket has fewer than one task on average.
    width_shift_ =
        gap.count <= 2 ? 0U : static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(gap.count))) - 2U;
    bucket_.reserve(1024);
    far_.reserve(1024);
  }

  void clear() {
    now_ = kStart;
    next_far_ = kNever;
    far_.clear();
    bucket_.clear();
    nodes_.clear();
    free_ = kEnd;
    // An aborted run leaves tasks behind.
    for (std::size_t s = 0; s < kSummaries; ++s)
      for (; summary_[s] != 0; summary_[s] &= summary_[s] - 1)
        used_[64 * s + static_cast<std::size_t>(std::countr_zero(summary_[s]))] = 0;
  }

  void insert(std::uint32_t task, Nanoseconds ready) {
    const std::uint64_t slot = bucket_of(ready);
    if (slot - now_ - 1 < kBuckets - 1)
      link(task, ready, slot);
    else
      insert_now_or_far(task, ready, slot);
  }
  void append(std::uint32_t task, Nanoseconds ready) { insert(task, ready); }

  template <bool kAppended = false>
  bool take(std::uint32_t& task, Nanoseconds& ready) {
    if (!bucket_.empty()) {
      take_from_bucket(task, ready);
      return true;
    }
    for (;;) {
      const std::size_t at = now_ & (kBuckets - 1);
      const std::uint64_t rest = used_[at / 64] >> (at % 64);
      const std::uint64_t slot =
          rest != 0 ? now_ + static_cast<std::uint64_t>(std::countr_zero(rest)) : find_in_later_words(at);
      if (next_far_ <= slot) {
        if (next_far_ == kNever) return false;
        pull_far();
        continue;
      }
      now_ = slot;
      const std::size_t found = slot & (kBuckets - 1);
      const std::uint64_t others = used_[found / 64] &= ~(std::uint64_t{1} << (found % 64));
      if (others == 0) summary_[found / 64 / 64] &= ~(std::uint64_t{1} << (found / 64 % 64));
      const std::uint32_t first = head_[found];
      Node* const nodes = nodes_.data();
      if (nodes[first].next == kEnd) {
        task = nodes[first].task;
        ready = nodes[first].ready;
        nodes[first].next = free_;
        free_ = first;
        return true;
      }
      std::uint32_t last = first;
      for (std::uint32_t each = first; each != kEnd; each = nodes[each].next) {
        bucket_.push_back({nodes[each].ready, nodes[each].task});
        last = each;
      }
      nodes[last].next = free_;
      free_ = first;
      std::make_heap(bucket_.begin(), bucket_.end(), std::greater<>{});
      take_from_bucket(task, ready);
      return true;
    }
  }

 private:
  static constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits;
  static constexpr std::size_t kWords = kBuckets / 64;
  static constexpr std::size_t kSummaries = (kWords + 63) / 64;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::uint64_t kStart = ~std::uint64_t{0};  // the bucket before that of time 0
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  struct Entry {
    Nanoseconds ready;
    std::uint32_t task;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  std::uint64_t bucket_of(Nanoseconds ready) const { return static_cast<std::uint64_t>(ready.count) >> width_shift_; }

  void take_from_bucket(std::uint32_t& task, Nanoseconds& ready) {
    task = bucket_.front().task;
    ready = bucket_.front().ready;
    std::pop_heap(bucket_.begin(), bucket_.end(), std::greater<>{});
    bucket_.pop_back();
  }

  void link(std::uint32_t task, Nanoseconds ready, std::uint64_t slot) {
    const std::size_t at = slot & (kBuckets - 1);
    const std::uint64_t bit = std::uint64_t{1} << (at % 64);
    std::uint64_t& word = used_[at / 64];
    std::uint32_t node = free_;
    if (node == kEnd) {
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    nodes_[node] = {ready, task, word & bit ? head_[at] : kEnd};
    head_[at] = node;
    word |= bit;
    summary_[at / 64 / 64] |= std::uint64_t{1} << (at / 64 % 64);
  }

  [[gnu::noinline]] void insert_now_or_far(std::uint32_t task, Nanoseconds ready, std::uint64_t slot) {
    if (slot == now_) {  // the bucket that is being emptied
      bucket_.push_back({ready, task});
      std::push_heap(bucket_.begin(), bucket_.end(), std::greater<>{});
    } else {
      far_.push_back({ready, task});
      std::push_heap(far_.begin(), far_.end(), std::greater<>{});
      next_far_ = std::min(next_far_, slot);
    }
  }

  [[gnu::noinline]] std::uint64_t find_in_later_words(std::size_t at) {
    std::size_t word = (at / 64 + 1) & (kWords - 1);
    std::size_t s = word / 64;
    std::uint64_t rest = summary_[s] >> (word % 64) << (word % 64);
    for (std::size_t i = 0; i <= kSummaries; ++i) {
      if (rest != 0) {
        word = 64 * s + static_cast<std::size_t>(std::countr_zero(rest));
        const std::size_t found = 64 * word + static_cast<std::size_t>(std::countr_zero(used_[word]));
        return now_ + ((found - at) & (kBuckets - 1));
      }
      s = (s + 1) & (kSummaries - 1);
      rest = summary_[s];
    }
    return kNever;
  }

  /// Advances the wheel to the first far task and inserts all far tasks within one turn of it.
  [[gnu::noinline]] void pull_far() {
    now_ = next_far_;
    while (!far_.empty()) {
      const Entry entry = far_.front();
      const std::uint64_t slot = bucket_of(entry.ready);
      if (slot >= now_ + kBuckets) break;
      std::pop_heap(far_.begin(), far_.end(), std::greater<>{});
      far_.pop_back();
      link(entry.task, entry.ready, slot);
    }
    next_far_ = far_.empty() ? kNever : bucket_of(far_.front().ready);
  }

  struct Node {
    Nanoseconds ready;
    std::uint32_t task = 0, next = 0;
  };
  std::vector<std::uint32_t> head_;
  std::vector<Node> nodes_;
  std::uint32_t free_ = kEnd;
  std::vector<std::uint64_t> used_, summary_;
  std::vector<Entry> far_;     // heap, earliest first
  std::vector<Entry> bucket_;  // heap: the rest of the bucket at now_
  std::uint64_t now_ = kStart, next_far_ = kNever;
  unsigned width_shift_ = 0;
};

/// The queues; a run uses the fastest.
struct ReadyQueues {
  PackedHeap heap;
  TimingWheel<12> wheel;
  TimingWheel<16> large_wheel;

  /// Calls run(queue) with the queue for task numbers below `tasks` and times up to `horizon`.
  template <class Run>
  auto with_fastest(std::size_t devices, std::size_t tasks, Nanoseconds horizon, const Run& run) {
    constexpr std::size_t kWheel = 33, kLargeWheel = 256;  // numbers of devices from which it is faster
    if (devices < kWheel && PackedHeap::fits(tasks, horizon)) return run(heap);
    return devices < kLargeWheel ? run(wheel) : run(large_wheel);
  }
};

}  // namespace trainyard::detail
