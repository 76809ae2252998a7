#include "trainyard/place/kit/calendar.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/support.hpp"
#include "trainyard/core/random.hpp"

using namespace trainyard;

namespace {
constexpr Nanoseconds ns(std::int64_t count) { return Nanoseconds{count}; }
}  // namespace

TEST_CASE("a task takes the first gap that is long enough, and a gap filled exactly is gone") {
  Calendar calendar;
  calendar.take(ns(2), ns(3));   // idle [0,2) [5,...)
  calendar.take(ns(10), ns(1));  // idle [0,2) [5,10) [11,...)
  CHECK(calendar.earliest(ns(0), ns(2)) == ns(0));
  CHECK(calendar.earliest(ns(1), ns(2)) == ns(5));
  CHECK(calendar.earliest(ns(1), ns(1)) == ns(1));
  CHECK(calendar.earliest(ns(6), ns(4)) == ns(6));
  CHECK(calendar.earliest(ns(6), ns(5)) == ns(11));
  CHECK(calendar.earliest(ns(0), ns(6)) == ns(11));
  CHECK(calendar.earliest(ns(0), ns(1), false) == ns(11));
  calendar.take(ns(5), ns(5));
  CHECK(calendar.earliest(ns(3), ns(1)) == ns(11));
}

TEST_CASE("a task without duration starts when it is ready and takes nothing") {
  Calendar calendar;
  calendar.take(ns(0), ns(10));
  CHECK(calendar.earliest(ns(4), ns(0)) == ns(4));
  calendar.take(ns(4), ns(0));
  CHECK(calendar.earliest(ns(0), ns(1)) == ns(10));
}

TEST_CASE("the calendar agrees with a look at every nanosecond, and with what is given back") {
  Random random{7};
  for (int round = 0; round < test::rounds(50); ++round) {
    Calendar calendar;
    std::vector<bool> busy(2000, false);
    std::vector<std::pair<std::int64_t, std::int64_t>> tasks;
    for (int task = 0; task < 60; ++task) {
      const std::int64_t ready = random.between(0, 120), length = random.between(1, 9);
      std::int64_t expected = ready;
      for (std::int64_t run = 0, at = ready; run < length; ++at) {
        run = busy[static_cast<std::size_t>(at)] ? 0 : run + 1;
        expected = at + 1 - run;
      }
      REQUIRE(calendar.earliest(ns(ready), ns(length)) == ns(expected));
      calendar.take(ns(expected), ns(length));
      for (std::int64_t at = expected; at < expected + length; ++at) busy[static_cast<std::size_t>(at)] = true;
      tasks.emplace_back(expected, length);
      if (!random.chance(0.3)) continue;
      std::swap(tasks[random.below(tasks.size())], tasks.back());
      const auto [start, time] = tasks.back();
      tasks.pop_back();
      calendar.give_back(ns(start), ns(time));
      for (std::int64_t at = start; at < start + time; ++at) busy[static_cast<std::size_t>(at)] = false;
    }
  }
}
