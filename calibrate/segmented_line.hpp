#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trainyard::calibrate {

/// A measured size: x bytes took y nanoseconds on average.
struct SizePoint {
  double x = 0, y = 0;
  double error = 0;  // standard error of y, as a share of y
};

/// One straight line of a fit: y = intercept + slope x over points [first, last] of ascending x. A fit consists of one
/// to three lines, each over at least 3 points (2 if it is the only one). Slopes are positive, intercepts non-negative.
struct Line {
  std::size_t first = 0, last = 0;
  double intercept = 0, slope = 0;
};
using Lines = std::vector<Line>;

/// Fits `count` lines by relative least squares, with the breakpoints of least error. Empty if there are too few
/// points.
Lines fit_lines(std::span<const SizePoint> points, std::size_t count);
/// Fits lines with the breakpoints of `like`.
Lines fit_lines_like(std::span<const SizePoint> points, const Lines& like);

/// Fits as few lines as the points support, at most `most_lines`. Another line is added if some point is farther from
/// its line than both 2 % and 4 of its standard errors, and if the Bayesian information criterion falls by more than
/// 12. Relative errors below 0.1 % hardly count there: its square is added to the mean squared error.
Lines choose_lines(std::span<const SizePoint> points, std::size_t most_lines);

/// Fitted y at x, from the line whose range (between breakpoints) contains x.
double value_at(const Lines& lines, std::span<const SizePoint> points, double x);
/// |y - fitted| / y of each point.
std::vector<double> relative_residuals(const Lines& lines, std::span<const SizePoint> points);

/// Breakpoint between lines i and i + 1: their crossing if it lies between their points, else the geometric mean of the
/// adjacent points.
double break_after(const Lines& lines, std::span<const SizePoint> points, std::size_t i);

}  // namespace trainyard::calibrate
