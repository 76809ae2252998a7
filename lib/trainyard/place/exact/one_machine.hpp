#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace trainyard::detail {

/// A task on a unary resource: it starts at `head` at the earliest, and `tail` follows its end.
struct MachineJob {
  std::int64_t head, duration, tail;
};

/// Returns the least possible maximum of end + tail if jobs may be preempted. By Jackson's rule, the released job with
/// the longest tail always runs. This equals the maximum over sets S of jobs of (least head + sum of durations + least
/// tail). J. Carlier: The one-machine sequencing problem. European J. Operational Research 11, 1982.
/// O(n log n); reorders the jobs. `waiting` is workspace.
inline std::int64_t one_machine_bound(std::vector<MachineJob>& jobs,
                                      std::vector<std::pair<std::int64_t, std::int64_t>>& waiting) {
  std::ranges::sort(jobs, {}, &MachineJob::head);
  waiting.clear();  // heap of (tail, remaining duration)
  std::int64_t time = 0, bound = std::numeric_limits<std::int64_t>::min();
  std::size_t next = 0;
  while (next < jobs.size() || !waiting.empty()) {
    if (waiting.empty()) time = std::max(time, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= time; ++next) {
      waiting.emplace_back(jobs[next].tail, jobs[next].duration);
      std::ranges::push_heap(waiting);
    }
    std::ranges::pop_heap(waiting);
    auto [tail, left] = waiting.back();
    waiting.pop_back();
    const std::int64_t run = next < jobs.size() ? std::min(left, jobs[next].head - time) : left;
    time += run;
    if (run == left) {
      bound = std::max(bound, time + tail);
    } else {
      waiting.emplace_back(tail, left - run);
      std::ranges::push_heap(waiting);
    }
  }
  return bound;
}

}  // namespace trainyard::detail
