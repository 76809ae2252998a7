#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// How copies, and ops of devices with the same memory (Device::part_of), slow the ops that run beside them.
///
///     time beside others = time alone x (1 + s L)
///
/// L is the share of the memory's bandwidth that the others take, copies to and from its devices and their ops, each
/// its bytes over its own time alone, all together at most 1. s is the op's sensitivity, measured by type and kind of
/// device (CostModel::copy_sensitivity; `interference` of a calibration): 0 where the op is bound by arithmetic, about
/// 1 where it is bound by memory, more where copies take its SMs too. Not seen: that copies are slowed by ops, and that
/// what is slowed takes a smaller share. CostModel::co_run is a factor for devices with one memory that a cluster does
/// not tell of.
///
/// Whole numbers, so that results repeat on every machine: s in thousandths, L in millionths, and work in units of
/// 2^-40 nanoseconds.
inline constexpr int kWorkBits = 40;

/// Millionths of the bandwidth, to the nearest; 0 where it is not known.
inline std::int64_t memory_load(Bytes bytes, Nanoseconds time, BytesPerSecond bandwidth) {
  if (time.count <= 0 || bandwidth.value <= 0) return 0;
  const double rate = static_cast<double>(bytes.count) / (static_cast<double>(time.count) * 1e-9);
  return static_cast<std::int64_t>(std::floor(std::min(1.0, rate / bandwidth.value) * 1e6 + 0.5));
}

/// Work in a nanosecond, rounded down; `load` may be of several copies.
inline std::int64_t slowed_rate(std::uint32_t sensitivity, std::int64_t load) {
  __extension__ using Wide = __int128;
  constexpr std::int64_t kOne = 1'000'000'000;  // thousandths times millionths
  const std::int64_t slower = kOne + sensitivity * std::min<std::int64_t>(load, 1'000'000);
  return static_cast<std::int64_t>((static_cast<Wide>(kOne) << kWorkBits) / slower);
}

}  // namespace trainyard
