#include "trainyard/core/sort_by.hpp"

#include <algorithm>
#include <numeric>

namespace trainyard::detail {

std::vector<std::pair<std::uint32_t, std::uint32_t>> swaps_to_sort(std::size_t count, const void* of,
                                                                   bool (*less)(const void*, std::size_t,
                                                                                std::size_t)) {
  std::vector<std::uint32_t> from(count);  // position i is to hold the item that stands at from[i]
  std::iota(from.begin(), from.end(), 0U);
  std::stable_sort(from.begin(), from.end(), [&](std::uint32_t a, std::uint32_t b) { return less(of, a, b); });
  std::vector<std::pair<std::uint32_t, std::uint32_t>> swaps;
  for (std::uint32_t first = 0; first < count; ++first)
    for (std::uint32_t at = first; from[at] != at;) {  // along a cycle; the item of its first position ends at its last
      const std::uint32_t next = std::exchange(from[at], at);
      if (next != first) swaps.emplace_back(at, next);
      at = next;
    }
  return swaps;
}

}  // namespace trainyard::detail
