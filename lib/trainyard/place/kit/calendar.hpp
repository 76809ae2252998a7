#pragma once

#include <algorithm>
#include <cassert>
#include <iterator>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Idle time of one device in an analytic plan: disjoint gaps by ascending start, the last one without end. Gaps are
/// stored instead of tasks because a busy device has few, which keeps the search short.
class Calendar {
 public:
  /// The earliest start, not before `ready`, of an idle interval of this length. Without insertion it is not before the
  /// end of the last task either. A task of length 0 starts when it is ready.
  Nanoseconds earliest(Nanoseconds ready, Nanoseconds length, bool insertion = true) const {
    if (length == Nanoseconds{0}) return ready;
    if (!insertion) return std::max(ready, last_end());
    auto gap = std::ranges::upper_bound(gaps_, ready, {}, &Gap::until);
    while (std::max(ready, gap->from) > gap->until - length) ++gap;
    return std::max(ready, gap->from);
  }

  /// Takes [start, start + length), which must be idle.
  void take(Nanoseconds start, Nanoseconds length) {
    if (length == Nanoseconds{0}) return;
    const auto gap = std::ranges::upper_bound(gaps_, start, {}, &Gap::until);
    assert(gap != gaps_.end() && gap->from <= start && start + length <= gap->until);
    const Gap before{gap->from, start}, after{start + length, gap->until};
    if (before.empty() && after.empty()) {
      gaps_.erase(gap);
    } else if (before.empty()) {
      *gap = after;
    } else if (after.empty()) {
      *gap = before;
    } else {
      *gap = after;
      gaps_.insert(gap, before);
    }
  }

  /// Releases [start, start + length), which must be taken.
  void give_back(Nanoseconds start, Nanoseconds length) {
    if (length == Nanoseconds{0}) return;
    const auto after = std::ranges::upper_bound(gaps_, start, {}, &Gap::until);
    const bool meets_after = after->from == start + length;
    if (after != gaps_.begin() && std::prev(after)->until == start) {
      std::prev(after)->until = meets_after ? after->until : start + length;
      if (meets_after) gaps_.erase(after);
    } else if (meets_after) {
      after->from = start;
    } else {
      gaps_.insert(after, {start, start + length});
    }
  }

  /// Releases everything, but keeps the allocated memory.
  void clear() { gaps_.assign(1, {Nanoseconds{0}, kLongestTime}); }

  /// The end of the last task.
  Nanoseconds last_end() const { return gaps_.back().from; }

 private:
  struct Gap {
    Nanoseconds from, until;
    bool empty() const { return from == until; }
  };
  std::vector<Gap> gaps_{{Nanoseconds{0}, kLongestTime}};
};

}  // namespace trainyard
