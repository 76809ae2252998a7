#pragma once

#include <algorithm>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"

namespace trainyard {

/// A range of sizes, both ends included, in which a transfer takes latency_ns + bytes x ns_per_byte.
struct TransferSegment {
  Bytes from, to;
  double latency_ns = 0;
  double ns_per_byte = 0;  // more than 0

  friend bool operator==(const TransferSegment&, const TransferSegment&) = default;
};

/// Measured times of bytes on one route: segments by ascending size. Sizes below the first segment use its line, those
/// above the last use the last line, and sizes between two segments use the line of the larger one.
struct TransferCurve {
  std::vector<TransferSegment> segments;  // at least one
  bool same_devices = true;               // false: measured between other devices of these kinds

  double time_ns(Bytes bytes) const {
    const TransferSegment* line = &segments.front();
    for (const TransferSegment& segment : segments) {
      line = &segment;
      if (bytes <= segment.to) break;
    }
    return line->latency_ns + static_cast<double>(bytes.count) * line->ns_per_byte;
  }
  Evidence evidence(Bytes bytes) const {
    const bool inside = bytes >= segments.front().from && bytes <= segments.back().to;
    return same_devices && inside ? Evidence::interpolated : Evidence::transferred;
  }
  /// Summary of the curve: the latency of its first line, and the bandwidth of its last.
  Nanoseconds latency() const { return nanoseconds_from_seconds(std::max(0.0, segments.front().latency_ns) * 1e-9); }
  BytesPerSecond bandwidth() const { return BytesPerSecond{1e9 / segments.back().ns_per_byte}; }

  friend bool operator==(const TransferCurve&, const TransferCurve&) = default;
};

}  // namespace trainyard
