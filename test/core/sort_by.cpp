#include "trainyard/core/sort_by.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/random.hpp"

namespace trainyard::test {
namespace {

struct Parcel {
  int weight;
  std::string to;

  friend bool operator==(const Parcel&, const Parcel&) = default;
};

TEST_CASE("items stand by their key, and equals as they stood, up and down") {
  const std::vector<Parcel> parcels = {{3, "a"}, {1, "b"}, {3, "c"}, {2, "d"}, {1, "e"}};
  std::vector<Parcel> rising = parcels, falling = parcels;
  sort_by(rising, &Parcel::weight);
  CHECK(rising == std::vector<Parcel>{{1, "b"}, {1, "e"}, {2, "d"}, {3, "a"}, {3, "c"}});
  sort_by_descending(falling, &Parcel::weight);
  CHECK(falling == std::vector<Parcel>{{3, "a"}, {3, "c"}, {2, "d"}, {1, "b"}, {1, "e"}});
}

TEST_CASE("a part of a list is sorted alone") {
  std::vector<int> list = {9, 3, 2, 1};
  const auto last = std::span{list}.subspan(1);
  sort_with(last, std::less<>{});
  CHECK(list == std::vector{9, 1, 2, 3});
  std::vector<int> none;
  sort_with(none, std::less<>{});
  CHECK(none.empty());
}

TEST_CASE("0.0 and -0.0 are equal") {
  std::vector<std::pair<double, int>> list = {{0.0, 1}, {-0.0, 2}, {-1.0, 3}};
  sort_by(list, [](const auto& each) { return each.first; });
  CHECK(list == std::vector<std::pair<double, int>>{{-1.0, 3}, {0.0, 1}, {-0.0, 2}});
}

TEST_CASE("the order is that of std::stable_sort") {
  Random random{7};
  for (std::size_t count = 1; count < 200; ++count) {
    std::vector<std::pair<std::uint64_t, std::size_t>> list;
    for (std::size_t i = 0; i < count; ++i) list.emplace_back(random.below(1 + count / 4), i);
    auto expected = list;
    std::ranges::stable_sort(expected, std::ranges::greater{}, [](const auto& each) { return each.first; });
    sort_by_descending(list, [](const auto& each) { return each.first; });
    CHECK(list == expected);
  }
}

}  // namespace
}  // namespace trainyard::test
