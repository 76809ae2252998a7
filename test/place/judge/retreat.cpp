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
