#include "calibrate/segmented_line.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "calibrate/least_squares.hpp"

namespace trainyard::calibrate {
namespace {

constexpr std::size_t kLeastPoints = 3;  // per line, if there are several
constexpr double kLeastSlope = 1e-9;     // ns per byte: 1 ns per GB

struct FittedLine {
  Line line;
  double error = 0;  // sum of the squares of relative residuals
};

FittedLine fit_line(std::span<const SizePoint> points, std::size_t first, std::size_t last) {
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  for (std::size_t i = first; i <= last; ++i) {
    rows.push_back({1.0, points[i].x});
    values.push_back(points[i].y);
  }
  std::vector<double> coefficients = relative_least_squares(rows, values);
  // If more bytes take no longer, only the latency remains; the slope stays positive.
  coefficients[1] = std::max(coefficients[1], kLeastSlope);
  return {{first, last, coefficients[0], coefficients[1]}, relative_error(rows, values, coefficients)};
}

double information(double error, std::size_t points, std::size_t lines) {
  constexpr double kFloor = 1e-3;
  const auto n = static_cast<double>(points);
  const auto parameters = static_cast<double>(3 * lines - 1);  // two per line, one per breakpoint
  return n * std::log(error / n + kFloor * kFloor) + parameters * std::log(n);
}

double total_error(const Lines& lines, std::span<const SizePoint> points) {
  double sum = 0;
  for (const double residual : relative_residuals(lines, points)) sum += residual * residual;
  return sum;
}

}  // namespace

Lines fit_lines(std::span<const SizePoint> points, std::size_t count) {
  const std::size_t n = points.size();
  if (n < 2 || (count > 1 && n < count * kLeastPoints)) return {};
  if (count == 1) return {fit_line(points, 0, n - 1).line};
  double least = std::numeric_limits<double>::infinity();
  Lines best;
  for (std::size_t first_end = kLeastPoints - 1; first_end + (count - 1) * kLeastPoints < n; ++first_end) {
    const FittedLine first = fit_line(points, 0, first_end);
    Lines rest = fit_lines(points.subspan(first_end + 1), count - 1);
    for (Line& line : rest) {
      line.first += first_end + 1;
      line.last += first_end + 1;
    }
    Lines lines{first.line};
    lines.insert(lines.end(), rest.begin(), rest.end());
    const double error = total_error(lines, points);
    if (error < least) {
      least = error;
      best = std::move(lines);
    }
  }
  return best;
}

Lines fit_lines_like(std::span<const SizePoint> points, const Lines& like) {
  Lines lines;
  for (const Line& line : like) lines.push_back(fit_line(points, line.first, line.last).line);
  return lines;
}

Lines choose_lines(std::span<const SizePoint> points, std::size_t most_lines) {
  constexpr double kClose = 0.02, kErrors = 4, kBetter = 12;
  Lines chosen = fit_lines(points, 1);
  for (std::size_t count = 2; count <= most_lines && !chosen.empty(); ++count) {
    const std::vector<double> residuals = relative_residuals(chosen, points);
    bool close = true;
    for (std::size_t i = 0; i < points.size(); ++i)
      close = close && residuals[i] <= std::max(kClose, kErrors * points[i].error);
    if (close) break;
    Lines more = fit_lines(points, count);
    if (more.empty()) break;
    const double before = information(total_error(chosen, points), points.size(), chosen.size());
    const double after = information(total_error(more, points), points.size(), count);
    if (after + kBetter < before) chosen = std::move(more);
  }
  return chosen;
}

double break_after(const Lines& lines, std::span<const SizePoint> points, std::size_t i) {
  const Line &low = lines[i], &high = lines[i + 1];
  const double from = points[low.last].x, to = points[high.first].x;
  const double crossing = (high.intercept - low.intercept) / (low.slope - high.slope);
  return crossing >= from && crossing < to ? crossing : std::sqrt(std::max(from, 1.0) * to);
}

double value_at(const Lines& lines, std::span<const SizePoint> points, double x) {
  std::size_t i = 0;
  while (i + 1 < lines.size() && x > break_after(lines, points, i)) ++i;
  return lines[i].intercept + lines[i].slope * x;
}

std::vector<double> relative_residuals(const Lines& lines, std::span<const SizePoint> points) {
  std::vector<double> residuals;
  for (const Line& line : lines)
    for (std::size_t i = line.first; i <= line.last; ++i)
      residuals.push_back(std::abs(points[i].y - line.intercept - line.slope * points[i].x) / points[i].y);
  return residuals;
}

}  // namespace trainyard::calibrate
