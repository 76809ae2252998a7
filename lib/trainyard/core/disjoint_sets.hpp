#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace trainyard {

/// Disjoint sets (union-find) of the numbers below `count`; the representative of a set is its lowest number.
class DisjointSets {
 public:
  explicit DisjointSets(std::size_t count = 0) : of_(count) { std::iota(of_.begin(), of_.end(), std::size_t{0}); }

  void add() { of_.push_back(of_.size()); }
  std::size_t find(std::size_t one) {
    while (of_[one] != one) one = of_[one] = of_[of_[one]];
    return one;
  }
  void join(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    of_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> of_;
};

}  // namespace trainyard
