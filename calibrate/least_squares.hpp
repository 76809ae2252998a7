#pragma once

#include <span>
#include <vector>

namespace trainyard::calibrate {

/// Relative least squares with non-negative coefficients c:
///
///     minimize  sum over points of ((y - sum over terms of c x) / y)^2,  c >= 0
///
/// A point of 1 us thus counts as much as one of 1 s. `rows` holds the terms x of each point, `values` its y > 0. Every
/// subset of the terms (at most 4) is solved; the result is the best subset whose coefficients are all positive, or all
/// 0 if there is none.
std::vector<double> relative_least_squares(std::span<const std::vector<double>> rows, std::span<const double> values);

/// Sum of squared relative residuals, the objective of relative_least_squares.
double relative_error(std::span<const std::vector<double>> rows, std::span<const double> values,
                      std::span<const double> coefficients);

/// Coefficient of determination of the fitted values: 1 - residual / total sum of squares. If the values do not vary: 1
/// for an exact fit, else 0.
double r_squared(std::span<const double> values, std::span<const double> fitted);

}  // namespace trainyard::calibrate
