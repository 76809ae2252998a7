#include "calibrate/type_fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "calibrate/least_squares.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard::calibrate {
namespace {

struct OpPoint {
  double flops = 0, bytes = 0, ns = 0;

  friend auto operator<=>(const OpPoint&, const OpPoint&) = default;
};
using KindAndType = std::pair<std::string, std::string>;

/// One point per signature, or per op without one, in the mode that predicts best; by ascending size.
std::map<KindAndType, std::vector<OpPoint>> points_by_type(std::span<const CalibratedOp> ops) {
  std::map<KindAndType, std::map<std::pair<std::string, std::string>, const CalibratedOp*>> chosen;
  for (const CalibratedOp& op : ops) {
    const bool stands_for_signature = !op.op.empty() && !op.signature.empty();
    if (op.type.empty() || op.mean.count <= 0 || stands_for_signature) continue;
    const CalibratedOp*& best = chosen[{op.device_kind, op.type}][{op.signature, op.graph + "/" + op.op}];
    if (!best || op.mode < best->mode) best = &op;
  }
  std::map<KindAndType, std::vector<OpPoint>> points;
  for (const auto& [key, rows] : chosen) {
    for (const auto& [name, op] : rows)
      points[key].push_back(
          {op->flops.value, static_cast<double>(op->bytes.count), static_cast<double>(op->mean.count)});
    std::ranges::sort(points[key]);
  }
  return points;
}

/// Coefficients of (1, FLOPs, bytes), for the subset of terms with the best Bayesian information criterion.
std::vector<double> coefficients_of(const std::vector<OpPoint>& points) {
  constexpr double kFloor = 1e-3;
  const auto n = static_cast<double>(points.size());
  std::vector<double> values;
  for (const OpPoint& point : points) values.push_back(point.ns);
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < 8; ++subset) {
    std::vector<std::vector<double>> rows;
    for (const OpPoint& point : points)
      rows.push_back({(subset & 1) ? 1.0 : 0.0, (subset & 2) ? point.flops : 0.0, (subset & 4) ? point.bytes : 0.0});
    const std::vector<double> fitted = relative_least_squares(rows, values);
    const auto terms = static_cast<double>(std::ranges::count_if(fitted, [](double c) { return c > 0; }));
    const double error = relative_error(rows, values, fitted);
    const double information = n * std::log(error / n + kFloor * kFloor) + terms * std::log(n);
    if (terms == 0 || information >= least) continue;
    least = information;
    best = fitted;
  }
  return best;
}

double time_at(const std::vector<double>& coefficients, const OpPoint& point) {
  return coefficients[0] + coefficients[1] * point.flops + coefficients[2] * point.bytes;
}

double off_by(const std::vector<double>& coefficients, const OpPoint& point) {
  return std::abs(time_at(coefficients, point) - point.ns) / point.ns;
}

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

/// Roofline efficiency of an op type that fits its points best. Candidates are the general efficiency, the shares of
/// `peak` and `bandwidth` (per second) that single points reach, and 1. `median_off` gets the median relative error.
Efficiency fitted_efficiency(const std::vector<OpPoint>& points, double peak, double bandwidth, Efficiency general,
                             double& median_off) {
  constexpr std::size_t kMostCandidates = 40;
  std::vector<double> compute, memory;
  for (const OpPoint& point : points) {
    if (point.flops > 0) compute.push_back(std::min(1.0, point.flops / (point.ns * 1e-9) / peak));
    if (point.bytes > 0) memory.push_back(std::min(1.0, point.bytes / (point.ns * 1e-9) / bandwidth));
  }
  const auto thin = [&](std::vector<double>& candidates, double first) {
    std::ranges::sort(candidates);
    std::vector<double> few{first};  // ties keep the first
    const std::size_t step = candidates.size() / kMostCandidates + 1;
    for (std::size_t i = 0; i < candidates.size(); i += step) few.push_back(candidates[i]);
    if (!candidates.empty()) few.push_back(candidates.back());
    few.push_back(1.0);
    candidates = std::move(few);
  };
  thin(compute, general.compute);
  thin(memory, general.memory);
  Efficiency best = general;
  double least = std::numeric_limits<double>::infinity();
  const auto fitted = [&](const OpPoint& point, double c, double m) {
    return std::max(point.flops / (peak * c), point.bytes / (bandwidth * m)) * 1e9;
  };
  for (const double c : compute) {
    for (const double m : memory) {
      double sum = 0;
      for (const OpPoint& point : points) sum += std::abs(std::log(fitted(point, c, m) / point.ns));
      if (sum >= least - 1e-9) continue;
      least = sum;
      best = {c, m};
    }
  }
  std::vector<double> off;
  for (const OpPoint& point : points)
    off.push_back(std::abs(fitted(point, best.compute, best.memory) - point.ns) / point.ns);
  median_off = median_of(off);
  return best;
}

}  // namespace

std::vector<CalibratedFit> type_fits(std::span<const CalibratedOp> ops, std::vector<std::string>& notes) {
  constexpr std::size_t kFewestPoints = 4;
  constexpr double kLeastSpread = 2, kTooFar = 0.5;
  std::vector<CalibratedFit> fits;
  for (const auto& [key, points] : points_by_type(ops)) {
    Range flops, bytes;
    for (const OpPoint& point : points) {
      flops.take(point.flops);
      bytes.take(point.bytes);
    }
    const bool spread = flops.most >= kLeastSpread * flops.least || bytes.most >= kLeastSpread * bytes.least;
    if (points.size() < kFewestPoints || !spread || (flops.most <= 0 && bytes.most <= 0)) continue;
    const std::vector<double> coefficients = coefficients_of(points);
    if (coefficients.empty()) continue;
    CalibratedFit fit{
        key.first,
        key.second,
        {coefficients[0], coefficients[1], coefficients[2], flops.least, flops.most, bytes.least, bytes.most},
        {}};
    std::vector<double> off, values, fitted;
    std::vector<OpPoint> kept, held;
    for (std::size_t i = 0; i < points.size(); ++i) {
      off.push_back(off_by(coefficients, points[i]));
      values.push_back(points[i].ns);
      fitted.push_back(time_at(coefficients, points[i]));
      (i % 2 == 1 && i + 1 < points.size() ? held : kept).push_back(points[i]);
    }
    fit.quality.points = static_cast<std::int64_t>(points.size());
    fit.quality.r2 = r_squared(values, fitted);
    fit.quality.median_relative = median_of(off);
    fit.quality.max_relative = std::ranges::max(off);
    if (const std::vector<double> others = coefficients_of(kept); !others.empty()) {
      fit.quality.held_out = static_cast<std::int64_t>(held.size());
      for (const OpPoint& point : held)
        fit.quality.held_out_max_relative = std::max(fit.quality.held_out_max_relative, off_by(others, point));
    }
    if (fit.quality.max_relative > kTooFar || fit.quality.held_out_max_relative > kTooFar) {
      notes.push_back(
          fmt::format("no fit for ops of the type {} on '{}': it would be off by up to {:.0f} % ({:.0f} % for "
                      "held-out ops)",
                      key.second, key.first, fit.quality.max_relative * 100, fit.quality.held_out_max_relative * 100));
      continue;
    }
    fits.push_back(fit);
  }
  return fits;
}

std::vector<CalibratedEfficiency> efficiencies(std::span<const CalibratedOp> ops,
                                               std::vector<CalibratedDevice>& devices,
                                               std::vector<std::string>& notes) {
  constexpr double kScatter = 1.02;
  const auto all = points_by_type(ops);
  const EfficiencyTable general = EfficiencyTable::standard();
  for (CalibratedDevice& device : devices) {
    const bool no_peak = device.peak.value <= 0, no_bandwidth = device.memory_bandwidth.value <= 0;
    FlopsPerSecond fastest{kScatter * device.peak.value};
    std::string type;
    for (const auto& [key, points] : all) {
      if (key.first != device.kind) continue;
      for (const OpPoint& point : points) {
        const double rate = point.flops / (point.ns * 1e-9);
        if (no_peak)
          device.peak.value = std::max(device.peak.value, rate);
        else if (rate > fastest.value)
          fastest.value = rate, type = key.second;
        if (no_bandwidth)
          device.memory_bandwidth.value = std::max(device.memory_bandwidth.value, point.bytes / (point.ns * 1e-9));
      }
    }
    if (!type.empty())
      notes.push_back(fmt::format(
          "ops of the type {} on '{}' reach {}, but the peak in the profile is {}: their efficiency is taken as "
          "1; give the peak for their precision, or the FLOPs that are really computed",
          type, device.kind, format_rate(fastest), format_rate(device.peak)));
  }
  std::vector<CalibratedEfficiency> result;
  for (const auto& [key, points] : all) {
    const auto device = std::ranges::find(devices, key.first, &CalibratedDevice::kind);
    if (device == devices.end()) continue;
    std::vector<OpPoint> usable;
    for (const OpPoint& point : points) {
      const bool has_rates =
          (point.flops <= 0 || device->peak.value > 0) && (point.bytes <= 0 || device->memory_bandwidth.value > 0);
      if ((point.flops > 0 || point.bytes > 0) && has_rates) usable.push_back(point);
    }
    if (usable.empty()) continue;
    CalibratedEfficiency entry{key.first, key.second, {}, static_cast<std::int64_t>(usable.size()), 0};
    entry.efficiency =
        fitted_efficiency(usable, std::max(device->peak.value, 1.0), std::max(device->memory_bandwidth.value, 1.0),
                          general.of(key.second), entry.median_relative);
    result.push_back(entry);
  }
  return result;
}

}  // namespace trainyard::calibrate
