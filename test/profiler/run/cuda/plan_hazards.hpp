#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/run/cuda/plan.hpp"

namespace trainyard::test {

inline bool overlap(const cuda::BufferPlace& a, const cuda::BufferPlace& b) {
  return a.device == b.device && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// For each item, the items that must have ended before it begins, by stream order and waits, whatever their durations.
inline std::vector<std::vector<bool>> ended_before(const cuda::ExecutionPlan& plan) {
  const std::size_t count = plan.items.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  std::vector<std::size_t> last(plan.stream_device.size(), count);
  for (std::size_t at = 0; at < count; ++at) {
    const auto after = [&](std::size_t other) {
      before[at][other] = true;
      for (std::size_t i = 0; i < other; ++i) before[at][i] = before[at][i] || before[other][i];
    };
    for (const std::uint32_t other : plan.items[at].waits) after(other);
    std::size_t& previous = last[plan.items[at].stream];
    if (previous != count) after(previous);
    previous = at;
  }
  return before;
}

/// Number of hazards: pairs of unordered items that access the same bytes, one of them writing, and reads of bytes that
/// another item has overwritten.
inline std::size_t hazards(const cuda::ExecutionPlan& plan) {
  const auto before = ended_before(plan);
  std::size_t found = 0;
  for (std::size_t at = 0; at < plan.items.size(); ++at) {
    const cuda::PlanItem& item = plan.items[at];
    for (const cuda::BufferPlace& read : item.reads) {
      if (read.bytes == Bytes{0}) continue;
      std::size_t writer = at;  // the last writer of these bytes must have written exactly this buffer
      for (std::size_t other = 0; other <= at; ++other)
        for (const cuda::BufferPlace& write : plan.items[other].writes)
          if (overlap(read, write) && (other < at || !(write == read))) writer = other;
      const auto& written = plan.items[writer].writes;
      found += std::ranges::find(written, read) == written.end();
    }
    for (std::size_t other = 0; other < at; ++other) {
      if (before[at][other]) continue;
      const auto touches = [](const std::vector<cuda::BufferPlace>& a, const std::vector<cuda::BufferPlace>& b) {
        return std::ranges::any_of(a, [&](const auto& one) {
          return std::ranges::any_of(b, [&](const auto& two) { return overlap(one, two); });
        });
      };
      found += touches(item.writes, plan.items[other].writes) || touches(item.writes, plan.items[other].reads) ||
               touches(item.reads, plan.items[other].writes);
    }
  }
  return found;
}

}  // namespace trainyard::test
