#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trainyard {

/// All divisors of `whole`, ascending; empty for 0. O(sqrt(whole)).
inline std::vector<std::size_t> divisors(std::size_t whole) {
  std::vector<std::size_t> list;
  for (std::size_t n = 1; n <= whole / n; ++n) {
    if (whole % n != 0) continue;
    list.push_back(n);
    if (n != whole / n) list.push_back(whole / n);
  }
  std::ranges::sort(list);
  return list;
}

}  // namespace trainyard
