#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trainyard::calibrate {

/// A measured size: x bytes took y nanoseconds on average.
struct SizePoint {
  double x = 0, y = 0;
  double error = 0;  // standard error of y as a share of it
};

/// One to three straight lines through points of ascending x, each over at least 3 of them (2 where there is one line):
/// line i covers points [first, last] and says y = intercept + slope x. Slopes are positive, intercepts not negative.
struct Line {
  std::size_t first = 0, last = 0;
  double intercept = 0, slope = 0;
};
using Lines = std::vector<Line>;

/// Fits `count` lines by relative least squares, at the breaks with the least error. Empty where there are too few
/// points.
Lines fit_lines(std::span<const SizePoint> points, std::size_t count);
/// Fits lines with the breaks of `like`.
Lines fit_lines_like(std::span<const SizePoint> points, const Lines& like);

/// As few lines as fit: one more is taken where the Bayesian information criterion falls by more than 12, for which
/// relative errors below 0.1 % count as none, and where a point is still further than 2 % from its line, and than 4 of
/// its standard errors.
Lines choose_lines(std::span<const SizePoint> points, std::size_t most_lines);

/// The y of the lines at x: of the line whose points reach that far.
double value_at(const Lines& lines, std::span<const SizePoint> points, double x);
/// |y - fitted| / y of each point.
std::vector<double> relative_residuals(const Lines& lines, std::span<const SizePoint> points);

/// Break between line i and the next: where they cross, if that is between their points, else between the points.
double break_after(const Lines& lines, std::span<const SizePoint> points, std::size_t i);

}  // namespace trainyard::calibrate
