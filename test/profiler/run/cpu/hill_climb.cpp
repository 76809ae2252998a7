#include "profiler/run/cpu/hill_climb.hpp"

#include <doctest/doctest.h>

using namespace trainyard;

TEST_CASE("threads are added while they help, over one step that does not") {
  // Amdahl's law with a serial tenth and an overhead of 5 a thread, 0.9 x 100 / n + 10 + 5 n: 105, 65, 55, 52.5, 53,
  // ...
  const auto amdahl = [](int n) { return 90.0 / n + 10 + 5 * n; };
  CHECK(hill_climb(16, 0.02, amdahl).threads == 4);
  CHECK(hill_climb(16, 0.02, amdahl).tried.size() == 6);  // 5 and 6 threads do not help
  CHECK(hill_climb(3, 0.02, amdahl).threads == 3);
  CHECK(hill_climb(1, 0.02, amdahl).tried.size() == 1);
  // No gain at 3 threads, but one at 4.
  const double steps[] = {0, 100, 60, 60, 40, 40, 40};
  CHECK(hill_climb(6, 0.02, [&](int n) { return steps[n]; }).threads == 4);
  CHECK(hill_climb(8, 0.02, [](int) { return 10.0; }).threads == 1);
}
