#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"

namespace trainyard {

/// The time of ops of one type on one kind of device, fitted to measured ops:
///
///     time = fixed + FLOPs x ns_per_flop + bytes x ns_per_byte
///
/// It interpolates if both FLOPs and bytes are within the ranges of the fitted ops.
struct TypeFit {
  double fixed_ns = 0, ns_per_flop = 0, ns_per_byte = 0;  // 0 or more each
  double least_flops = 0, most_flops = 0;
  double least_bytes = 0, most_bytes = 0;

  /// The time to the nearest nanosecond, halves up.
  Nanoseconds time(Flops flops, Bytes bytes) const {
    return nanoseconds_from_seconds(
        (fixed_ns + flops.value * ns_per_flop + static_cast<double>(bytes.count) * ns_per_byte) * 1e-9);
  }
  Evidence evidence(Flops flops, Bytes bytes) const {
    const auto size = static_cast<double>(bytes.count);
    const bool inside =
        flops.value >= least_flops && flops.value <= most_flops && size >= least_bytes && size <= most_bytes;
    return inside ? Evidence::interpolated : Evidence::transferred;
  }

  friend bool operator==(const TypeFit&, const TypeFit&) = default;
};

/// Fits by device kind and op type.
class TypeFitTable {
 public:
  /// A second fit for the same kind and type replaces the first.
  void set(std::string_view device_kind, std::string_view type, const TypeFit& fit) {
    kinds_[std::string{device_kind}].insert_or_assign(std::string{type}, fit);
  }
  /// The fit, or null if there is none.
  const TypeFit* find(std::string_view device_kind, std::string_view type) const {
    const auto kind = kinds_.find(device_kind);
    if (kind == kinds_.end()) return nullptr;
    const auto fit = kind->second.find(type);
    return fit == kind->second.end() ? nullptr : &fit->second;
  }
  bool empty() const { return kinds_.empty(); }

  friend bool operator==(const TypeFitTable&, const TypeFitTable&) = default;

 private:
  std::map<std::string, std::map<std::string, TypeFit, std::less<>>, std::less<>> kinds_;
};

/// Slowdown of ops that run at once on devices with one memory, by device kind, op type and number of busy devices.
class CoRunTable {
 public:
  /// Sets a factor: time together / time alone. Requires devices > 1 and factor > 0.
  void set(std::string_view device_kind, std::string_view type, std::int64_t devices, double factor) {
    kinds_[std::string{device_kind}][std::string{type}][devices] = factor;
  }
  /// The factor, interpolated linearly between measured numbers of devices (with factor 1 at one device), constant
  /// beyond the last; 1 if nothing is known.
  double factor(std::string_view device_kind, std::string_view type, std::int64_t devices) const {
    const auto kind = kinds_.find(device_kind);
    if (kind == kinds_.end() || devices <= 1) return 1;
    const auto factors = kind->second.find(type);
    if (factors == kind->second.end() || factors->second.empty()) return 1;
    std::pair<std::int64_t, double> below{1, 1.0};
    for (const auto& point : factors->second) {
      if (point.first >= devices)
        return below.second + (point.second - below.second) * static_cast<double>(devices - below.first) /
                                  static_cast<double>(point.first - below.first);
      below = point;
    }
    return below.second;
  }
  bool empty() const { return kinds_.empty(); }

  friend bool operator==(const CoRunTable&, const CoRunTable&) = default;

 private:
  std::map<std::string, std::map<std::string, std::map<std::int64_t, double>, std::less<>>, std::less<>> kinds_;
};

}  // namespace trainyard
