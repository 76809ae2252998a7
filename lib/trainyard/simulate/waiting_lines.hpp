#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/simulate/priority_lines.hpp"

namespace trainyard::detail {

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
