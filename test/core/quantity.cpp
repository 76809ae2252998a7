#include "trainyard/core/quantity.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace trainyard;

TEST_CASE("bytes over a bandwidth are rounded to the nearest nanosecond, halves up") {
  CHECK(time_for(Bytes{50}, BytesPerSecond{50e9}) == Nanoseconds{1});
  CHECK(time_for(Bytes{1}, BytesPerSecond{2e9}) == Nanoseconds{1});    // 0.5 ns goes up
  CHECK(time_for(Bytes{1}, BytesPerSecond{2.1e9}) == Nanoseconds{0});  // 0.476 ns goes down
  CHECK(time_for(Bytes{3}, BytesPerSecond{2e9}) == Nanoseconds{2});    // 1.5 ns goes up
  CHECK(time_for(Bytes{10}, BytesPerSecond{0.5}) == Nanoseconds{20'000'000'000});
  CHECK(time_for(Bytes{0}, BytesPerSecond{1}) == Nanoseconds{0});
}

TEST_CASE("a mean is rounded to the nearest nanosecond, halves up") {
  CHECK(mean_of(Nanoseconds{7}, 2) == Nanoseconds{4});   // 3.5
  CHECK(mean_of(Nanoseconds{10}, 3) == Nanoseconds{3});  // 3.33
  CHECK(mean_of(Nanoseconds{11}, 3) == Nanoseconds{4});  // 3.67
  CHECK(mean_of(Nanoseconds{0}, 3) == Nanoseconds{0});
}

TEST_CASE("a time relative to nothing is 1") {
  CHECK(relative_to(Nanoseconds{3}, Nanoseconds{4}) == 0.75);
  CHECK(relative_to(Nanoseconds{3}, Nanoseconds{0}) == 1);
}

TEST_CASE("a time beyond the longest one is the longest one") {
  CHECK(time_for(Bytes{std::numeric_limits<std::int64_t>::max()}, BytesPerSecond{1}) == kLongestTime);
  CHECK(time_for(Flops{1e300}, FlopsPerSecond{1}) == kLongestTime);
}

TEST_CASE("what is no number, or far below 0, is a time that whoever takes times refuses") {
  CHECK(nanoseconds_from_seconds(std::numeric_limits<double>::quiet_NaN()) == -1 * kLongestTime);
  CHECK(nanoseconds_from_seconds(-std::numeric_limits<double>::infinity()) == -1 * kLongestTime);
  CHECK(time_for(Flops{0}, FlopsPerSecond{0}) < Nanoseconds{0});
  CHECK(nanoseconds_from_seconds(-2e-9) == Nanoseconds{-2});
}

TEST_CASE("2.1 GFLOP at 15.7 TFLOP/s take 133758 ns") {  // 2.1e9 / 15.7e12 = 133.7579... us
  CHECK(time_for(Flops{2.1e9}, FlopsPerSecond{15.7e12}) == Nanoseconds{133'758});
}
