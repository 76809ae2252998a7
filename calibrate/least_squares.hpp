#pragma once

#include <span>
#include <vector>

namespace trainyard::calibrate {

/// Relative least squares with coefficients that are not negative:
///
///     minimize  sum over points of ((y - sum over terms of c x) / y)^2,  c >= 0
///
/// so that a point of 1 us counts as much as one of 1 s. `rows` has the terms of each point, `values` its y > 0. The
/// best of all subsets of terms whose coefficients come out positive; at most 4 terms. All 0 where there is none.
std::vector<double> relative_least_squares(std::span<const std::vector<double>> rows, std::span<const double> values);

/// Sum of the squares above.
double relative_error(std::span<const std::vector<double>> rows, std::span<const double> values,
                      std::span<const double> coefficients);

/// Coefficient of determination of the fitted values: 1 - residual / total sum of squares. 1 where the
/// values do not vary and are met.
double r_squared(std::span<const double> values, std::span<const double> fitted);

}  // namespace trainyard::calibrate
