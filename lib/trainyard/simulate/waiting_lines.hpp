#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/core/quantity.hpp"

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

/// One heap of waiting tasks per resource, all in one array that is allocated once: the caller says beforehand how many
/// tasks will ever wait at each resource.
///
/// std::push_heap rather than a Boost.Heap per resource because a heap here lives in a slice of a shared array, and
/// there may be thousands of mostly empty ones.
class WaitingLines {
 public:
  /// capacities[i]: how many tasks can wait at resource i at once.
  explicit WaitingLines(const std::vector<std::uint32_t>& capacities) : lines_(capacities.size()) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < capacities.size(); ++i) {
      lines_[i].first = total;
      total += capacities[i];
    }
    slots_.resize(total);
  }

  bool empty(std::size_t line) const { return lines_[line].size == 0; }
  const Waiting& first(std::size_t line) const {
    assert(!empty(line));
    return slots_[lines_[line].first];
  }
  void push(std::size_t line, const Waiting& task) {
    ++lines_[line].size;
    *(end(line) - 1) = task;
    std::push_heap(begin(line), end(line), std::greater<>{});
  }
  void pop(std::size_t line) {
    std::pop_heap(begin(line), end(line), std::greater<>{});
    --lines_[line].size;
  }

 private:
  struct Line {
    std::size_t first = 0, size = 0;
  };
  std::vector<Waiting>::iterator begin(std::size_t line) {
    return slots_.begin() + static_cast<std::ptrdiff_t>(lines_[line].first);
  }
  std::vector<Waiting>::iterator end(std::size_t line) {
    return begin(line) + static_cast<std::ptrdiff_t>(lines_[line].size);
  }

  std::vector<Line> lines_;
  std::vector<Waiting> slots_;
};

}  // namespace trainyard::detail
