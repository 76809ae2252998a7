#include "trainyard/core/statistics.hpp"

#include <doctest/doctest.h>

using namespace trainyard;

TEST_CASE("quantiles are values, and each rule takes its own") {
  const std::vector<double> four{4, 1, 3, 2};
  CHECK(mean_of(four) == 2.5);
  CHECK(standard_error(four) == doctest::Approx(0.6454972));  // sqrt((2.25 + 0.25 + 0.25 + 2.25) / (4 - 1) / 4)
  CHECK(standard_error(std::vector<double>{7}) == 0);
  CHECK(median_of(four) == 2.5);
  CHECK(median_of({5, 1, 9}) == 5);
  CHECK(quantile_of(four, 0.5) == 2);  // half of the four values are at most 2
  CHECK(quantile_of(four, 0.51) == 3);
  CHECK(quantile_of(four, 0) == 1);
  CHECK(quantile_of(four, 1) == 4);
  CHECK(upper_quantile_of(four) == 3);  // position 0.5 x 4 = 2
  CHECK(upper_quantile_of(four, 0.1) == 1);
  CHECK(upper_quantile_of(four, 1) == 4);
}

TEST_CASE("Kendall's tau-b counts pairs in order against pairs out of order, and ties on neither side") {
  const std::vector<double> up{1, 2, 3, 4};
  CHECK(*kendall_tau(up, up) == 1);
  CHECK(*kendall_tau(up, std::vector<double>{4, 3, 2, 1}) == -1);
  CHECK(*kendall_tau(up, std::vector<double>{1, 3, 2, 4}) == doctest::Approx(4.0 / 6));  // 5 pairs of 6 in order
  // Ties: 2 and 3 in one list, 1 and 2 in the other. Among 6 pairs 4 are in order, and each list has 5 untied pairs: 4
  // / sqrt(5 x 5).
  CHECK(*kendall_tau(std::vector<double>{1, 2, 2, 3}, std::vector<double>{1, 1, 2, 3}) == doctest::Approx(0.8));
  CHECK_FALSE(kendall_tau(up, std::vector<double>{5, 5, 5, 5}));
  CHECK_FALSE(kendall_tau(std::vector<double>{1}, std::vector<double>{1}));
}
