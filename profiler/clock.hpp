#pragma once

#include <time.h>

#include <cstdint>

namespace trainyard {

/// Monotonic host time in nanoseconds: the clock of all measurements except those by events on a device.
inline std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * std::int64_t{1000000000} + t.tv_nsec;
}

}  // namespace trainyard
