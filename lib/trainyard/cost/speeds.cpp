#include "trainyard/cost/speeds.hpp"

#include <cassert>
#include <cmath>

namespace trainyard {

Nanoseconds at_speed(Nanoseconds time, double speed) {
  assert(speed > 0);
  if (speed == 1) return time;
  const double scaled = std::floor(static_cast<double>(time.count) / speed + 0.5);
  return scaled >= static_cast<double>(kLongestTime.count) ? kLongestTime
                                                           : Nanoseconds{static_cast<std::int64_t>(scaled)};
}

}  // namespace trainyard
