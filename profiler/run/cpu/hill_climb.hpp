#pragma once

#include <utility>
#include <vector>

namespace trainyard {

/// The thread counts that were tried, in order, and the best of them.
struct Climb {
  int threads = 1;
  std::vector<std::pair<int, double>> tried;  // threads, time
};

/// The number of threads from 1 to `most` with the least time(threads), by hill climbing: one more thread at a time,
/// while the time falls by at least the share `gain`. One step without gain is forgiven, since times scatter. Ties go
/// to fewer threads. Speed-ups are stable over the steps of a training run, so that one search is enough (Talos).
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
