#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Slowdown of ops by concurrent copies, and by ops on devices with the same memory (Device::part_of).
///
///     concurrent time = time alone x (1 + s L)
///
/// L is the share of the memory bandwidth that the other tasks use: copies to and from the devices of this memory, and
/// their ops. Each uses its bytes divided by its own time alone; the sum is at most 1. s is the op's sensitivity,
/// measured by op type and device kind (CostModel::copy_sensitivity; `interference` of a calibration): 0 if the op is
/// bound by arithmetic, about 1 if it is bound by memory, more if copies use its SMs too. Not modelled: ops slow copies
/// down, and a slowed task uses a smaller share. CostModel::co_run is a factor for devices that share a memory unknown
/// to the cluster.
///
/// All values are whole numbers, so that results are the same on every machine: s in thousandths, L in millionths, and
/// work in units of 2^-40 nanoseconds.
inline constexpr int kWorkBits = 40;

/// Share of the bandwidth in millionths, rounded to the nearest; 0 if the time or the bandwidth is not positive.
inline std::int64_t memory_load(Bytes bytes, Nanoseconds time, BytesPerSecond bandwidth) {
  if (time.count <= 0 || bandwidth.value <= 0) return 0;
  const double rate = static_cast<double>(bytes.count) / (static_cast<double>(time.count) * 1e-9);
  return static_cast<std::int64_t>(std::floor(std::min(1.0, rate / bandwidth.value) * 1e6 + 0.5));
}

/// Work done per nanosecond, rounded down. `load` is the sum over concurrent tasks and is capped at 1.
inline std::int64_t slowed_rate(std::uint32_t sensitivity, std::int64_t load) {
  __extension__ using Wide = __int128;
  constexpr std::int64_t kOne = 1'000'000'000;  // thousandths times millionths
  const std::int64_t slower = kOne + sensitivity * std::min<std::int64_t>(load, 1'000'000);
  return static_cast<std::int64_t>((static_cast<Wide>(kOne) << kWorkBits) / slower);
}

}  // namespace trainyard
