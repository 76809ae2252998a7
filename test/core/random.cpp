#include "trainyard/core/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace trainyard;

TEST_CASE("one seed gives one sequence, another seed another") {
  Random a{7}, b{7}, c{8};
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const auto drawn = a.next();
    CHECK(drawn == b.next());
    differs = differs || drawn != c.next();
  }
  CHECK(differs);
}

TEST_CASE("a bounded draw reaches every value and no other") {
  Random random{1};
  std::vector<int> seen(6);
  for (int i = 0; i < 600; ++i) {
    const auto value = random.between(-2, 3);
    REQUIRE(value >= -2);
    REQUIRE(value <= 3);
    ++seen[static_cast<std::size_t>(value + 2)];
  }
  CHECK(*std::min_element(seen.begin(), seen.end()) > 50);  // 100 expected of each value
}

TEST_CASE("a shuffle keeps the items") {
  Random random{3};
  std::vector<int> items{1, 2, 3, 4, 5, 6, 7, 8};
  const auto before = items;
  random.shuffle(items);
  CHECK(items != before);
  std::sort(items.begin(), items.end());
  CHECK(items == before);
}

TEST_CASE("named streams of one seed differ and repeat") {
  CHECK(Random::stream(5, 1).next() == Random::stream(5, 1).next());
  CHECK(Random::stream(5, 1).next() != Random::stream(5, 2).next());
  CHECK(Random::stream(5, 1).next() != Random::stream(6, 1).next());
}

TEST_CASE("normal numbers have mean 0 and variance 1, and the same bits everywhere") {
  Random random{7};
  double sum = 0, squares = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / kDraws) < 0.02);  // six standard deviations of the mean
  CHECK(std::abs(squares / kDraws - 1) < 0.03);
  // A normal draw is the normal quantile of the uniform draw's midpoint in (0, 1).
  Random one{9}, other{9};
  CHECK(one.normal() == normal_quantile((static_cast<double>(other.next() >> 12) + 0.5) / 4503599627370496.0));
}
