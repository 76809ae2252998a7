#include "trainyard/place/judge/retreat.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace trainyard;

TEST_CASE("a retreat ends where a plan is settled, and keeps the first of the least outcomes") {
  std::vector<int> asked;
  const auto seed_of = [&](const std::vector<int>& outcomes, int settled_at) {
    asked.clear();
    return best_retreat([&](int percent) {
             asked.push_back(percent);
             return Retreat<int>{.schedule = Schedule{.seed = static_cast<std::uint64_t>(percent)},
                                 .outcome = outcomes[asked.size() - 1],
                                 .settled = percent == settled_at};
           })
        .seed;
  };
  CHECK(seed_of({5}, 100) == 100);
  CHECK(asked == std::vector{100});
  CHECK(seed_of({5, 4, 9}, 80) == 90);
  CHECK(asked == std::vector{100, 90, 80});
  CHECK(seed_of({5, 4, 4, 3, 3, 6}, 0) == 70);  // never settled
  CHECK(asked == std::vector{100, 90, 80, 70, 60, 50});
}

TEST_CASE("a retreat whose time is up keeps what it has; without a plan it says that it was not done") {
  const auto until = [](int last) {  // below `last`, time is up; each plan is better than the one before
    return best_retreat([&](int percent) {
      if (percent < last) throw OutOfTime{};
      return Retreat<int>{Schedule{.seed = static_cast<std::uint64_t>(percent)}, percent, false};
    });
  };
  CHECK(until(100).seed == 100);
  CHECK(until(80).seed == 80);
  CHECK_THROWS_AS(until(101), OutOfTime);
}
