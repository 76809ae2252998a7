#pragma once

#include <utility>
#include <vector>

namespace trainyard {

/// Numbers of threads that were tried, in order, and the best of them.
struct Climb {
  int threads = 1;
  std::vector<std::pair<int, double>> tried;  // threads, time
};

/// The number of threads from 1 to `most` at which time(threads) is least, by hill climbing: one more each time, while
/// the time falls by `gain` of itself at least; one step without gain is forgiven, as times scatter. Fewer threads win
/// ties. Speedups are stable over the steps of a training run, so that once is enough (Talos).
template <class Time>
Climb hill_climb(int most, double gain, Time&& time) {
  Climb climb;
  double best = time(1);
  climb.tried.emplace_back(1, best);
  int without = 0;
  for (int threads = 2; threads <= most && without < 2; ++threads) {
    const double now = time(threads);
    climb.tried.emplace_back(threads, now);
    if (now < best * (1 - gain)) {
      best = now;
      climb.threads = threads;
      without = 0;
    } else {
      ++without;
    }
  }
  return climb;
}

}  // namespace trainyard
