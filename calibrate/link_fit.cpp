#include "calibrate/link_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "calibrate/clean_samples.hpp"
#include "calibrate/least_squares.hpp"
#include "calibrate/segmented_line.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard::calibrate {
namespace {

constexpr std::size_t kLeastSizes = 3, kMostSegments = 3;
constexpr int kBootstrapRounds = 200;

struct MeasuredSize {
  SizePoint point;
  std::vector<double> samples_ns;
};

std::string title(const LinkMeasurement& link) { return fmt::format("the link from '{}' to '{}'", link.from, link.to); }

std::vector<SizePoint> points_of(const std::vector<MeasuredSize>& sizes) {
  std::vector<SizePoint> points;
  for (const MeasuredSize& size : sizes) points.push_back(size.point);
  return points;
}

/// Good samples by ascending size; rows of one size are joined.
std::vector<MeasuredSize> measured_sizes(const LinkMeasurement& link, FitQuality& quality,
                                         std::vector<std::string>& notes) {
  constexpr double kApart = 2;
  std::map<Bytes, Samples> by_size;
  double apart = kApart;
  std::string twice;
  const auto median = [](const Samples& samples) {
    const std::vector<double> good = clean(samples).kept_ns;
    return good.empty() ? 0 : median_of(good);
  };
  for (const SizeMeasurement& size : link.sizes) {
    const auto [at, is_new] = by_size.try_emplace(size.bytes);
    if (!is_new) {
      const double before = median(at->second), now = median(size.samples);
      const double ratio = before > 0 && now > 0 ? std::max(before / now, now / before) : 1;
      if (ratio > apart) {
        apart = ratio;
        twice = fmt::format(
            "{} was measured more than once, with times that differ by a factor of {:.1f} at {}: all samples are used",
            title(link), ratio, format_bytes(size.bytes));
      }
    }
    join(at->second, size.samples);
  }
  if (!twice.empty()) notes.push_back(twice);
  std::vector<MeasuredSize> sizes;
  for (const auto& [bytes, samples] : by_size) {
    CleanSamples good = clean(samples);
    const auto outliers = good.drop_reasons.find("outlier");
    if (outliers != good.drop_reasons.end()) {
      notes.push_back(fmt::format("{}: {} of {} samples at {} dropped: outlier", title(link), outliers->second,
                                  samples.kept.size(), format_bytes(bytes)));
      quality.dropped += outliers->second;
    }
    if (good.kept_ns.empty()) continue;
    const double mean = mean_of(good.kept_ns);
    if (mean <= 0)
      refuse("samples", fmt::format("{} took 0 ns for {}", title(link), format_bytes(bytes)),
             "time several transfers together, and give the time per transfer");
    const double error = standard_error(good.kept_ns) / mean;
    sizes.push_back({{static_cast<double>(bytes.count), mean, error}, std::move(good.kept_ns)});
  }
  return sizes;
}

double squared_error(const std::vector<SizePoint>& points) {
  double sum = 0;
  for (const double residual : relative_residuals(choose_lines(points, kMostSegments), points))
    sum += residual * residual;
  return sum;
}

/// Drops sizes whose samples are all wrong (fit_link).
void drop_outlying_sizes(std::vector<MeasuredSize>& sizes, const LinkMeasurement& link, FitQuality& quality,
                         std::vector<std::string>& notes) {
  constexpr double kLessError = 20, kFarOff = 0.25, kFloor = 1e-6;
  std::size_t may_drop = sizes.size() / 4;
  while (may_drop-- > 0 && sizes.size() > kLeastSizes + 1) {
    const std::vector<SizePoint> all = points_of(sizes);
    const double error = squared_error(all);
    std::size_t worst = all.size();
    double least = error / kLessError, expected = 0;
    if (least <= kFloor) return;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<SizePoint> others = all;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const double without = squared_error(others);
      if (without + kFloor >= least) continue;
      const double predicted = value_at(choose_lines(others, kMostSegments), others, all[i].x);
      if (std::abs(all[i].y - predicted) <= kFarOff * predicted) continue;
      worst = i;
      least = without + kFloor;
      expected = predicted;
    }
    if (worst == all.size()) return;
    notes.push_back(fmt::format("{}: the size {} dropped: outlier (it took {}, the other sizes predict {})",
                                title(link), format_bytes(Bytes{static_cast<std::int64_t>(all[worst].x)}),
                                format_time(nanoseconds_from_seconds(all[worst].y * 1e-9)),
                                format_time(nanoseconds_from_seconds(expected * 1e-9))));
    quality.dropped += static_cast<std::int64_t>(sizes[worst].samples_ns.size());
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(worst));
  }
}

/// Held-out error: the error at every second size when it is predicted from the others.
void hold_out(const std::vector<SizePoint>& points, FitQuality& quality) {
  std::vector<SizePoint> kept, held;
  for (std::size_t i = 0; i < points.size(); ++i)
    (i % 2 == 1 && i + 1 < points.size() ? held : kept).push_back(points[i]);
  if (held.empty() || kept.size() < 2) return;
  const Lines lines = choose_lines(kept, kMostSegments);
  quality.held_out = static_cast<std::int64_t>(held.size());
  for (const SizePoint& point : held)
    quality.held_out_max_relative =
        std::max(quality.held_out_max_relative, std::abs(point.y - value_at(lines, kept, point.x)) / point.y);
}

/// 95 % intervals of every intercept and slope.
void bootstrap(const std::vector<MeasuredSize>& sizes, const Lines& lines, std::uint64_t seed, CalibratedLink& link) {
  const std::vector<SizePoint> points = points_of(sizes);
  const bool samples = std::ranges::any_of(sizes, [](const MeasuredSize& size) { return size.samples_ns.size() > 1; });
  std::vector<double> ratios;  // measured / fitted, drawn if no size has several samples
  for (const SizePoint& point : points) ratios.push_back(point.y / value_at(lines, points, point.x));
  Random random{seed};
  std::vector<std::vector<double>> intercepts(lines.size()), slopes(lines.size());
  for (int round = 0; round < kBootstrapRounds; ++round) {
    std::vector<SizePoint> drawn = points;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<double>& from = sizes[i].samples_ns;
      if (!samples) {
        drawn[i].y = value_at(lines, points, points[i].x) * ratios[random.below(ratios.size())];
        continue;
      }
      double sum = 0;
      for (std::size_t k = 0; k < from.size(); ++k) sum += from[random.below(from.size())];
      drawn[i].y = sum / static_cast<double>(from.size());
    }
    const Lines fitted = fit_lines_like(drawn, lines);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      intercepts[i].push_back(fitted[i].intercept);
      slopes[i].push_back(fitted[i].slope);
    }
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    link.latency_ns.push_back({quantile_of(intercepts[i], 0.025), quantile_of(intercepts[i], 0.975)});
    link.ns_per_byte.push_back({quantile_of(slopes[i], 0.025), quantile_of(slopes[i], 0.975)});
  }
}

}  // namespace

CalibratedLink fit_link(const LinkMeasurement& measured, std::uint64_t seed, std::vector<std::string>& notes) {
  CalibratedLink link{.link = measured.link,
                      .from = measured.from,
                      .to = measured.to,
                      .path = measured.path,
                      .engine = measured.engine,
                      .pinned = measured.pinned,
                      .beside = measured.beside};
  std::vector<MeasuredSize> sizes = measured_sizes(measured, link.quality, notes);
  if (sizes.size() < kLeastSizes)
    refuse("too-few-points",
           fmt::format("{} was measured at {}, but fitting a latency and a bandwidth needs at least {}",
                       title(measured), counted(sizes.size(), "size"), kLeastSizes),
           "measure it at sizes from a few hundred bytes to many megabytes");
  drop_outlying_sizes(sizes, measured, link.quality, notes);

  const std::vector<SizePoint> points = points_of(sizes);
  const Lines lines = choose_lines(points, kMostSegments);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Bytes from = i == 0 ? Bytes{static_cast<std::int64_t>(points.front().x)} : link.segments.back().to + Bytes{1};
    const double to = i + 1 < lines.size() ? break_after(lines, points, i) : points.back().x;
    if (lines[i].slope > 1e9)
      refuse("samples", fmt::format("{} takes more than a second per byte", title(measured)),
             "give times in nanoseconds");
    link.segments.push_back({from, Bytes{static_cast<std::int64_t>(to)}, lines[i].intercept, lines[i].slope});
  }
  const std::vector<double> residuals = relative_residuals(lines, points);
  std::vector<double> values, fitted;
  for (const SizePoint& point : points) {
    values.push_back(point.y);
    fitted.push_back(value_at(lines, points, point.x));
  }
  link.quality.points = static_cast<std::int64_t>(points.size());
  link.quality.r2 = r_squared(values, fitted);
  link.quality.median_relative = median_of(residuals);
  link.quality.max_relative = std::ranges::max(residuals);
  hold_out(points, link.quality);
  bootstrap(sizes, lines, seed, link);
  return link;
}

}  // namespace trainyard::calibrate
