#include "calibrate/least_squares.hpp"

#include <Eigen/Dense>
#include <cassert>
#include <cmath>
#include <limits>

#include "trainyard/core/statistics.hpp"

namespace trainyard::calibrate {

double relative_error(std::span<const std::vector<double>> rows, std::span<const double> values,
                      std::span<const double> coefficients) {
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double fitted = 0;
    for (std::size_t k = 0; k < coefficients.size(); ++k) fitted += coefficients[k] * rows[i][k];
    const double residual = (values[i] - fitted) / values[i];
    sum += residual * residual;
  }
  return sum;
}

std::vector<double> relative_least_squares(std::span<const std::vector<double>> rows, std::span<const double> values) {
  assert(!rows.empty() && rows.size() == values.size());
  const std::size_t terms = rows.front().size();
  assert(terms <= 4);
  std::vector<double> best(terms, 0.0);
  double least = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < (1u << terms); ++subset) {
    std::vector<std::size_t> chosen;
    for (std::size_t k = 0; k < terms; ++k)
      if (subset & (1u << k)) chosen.push_back(k);
    if (chosen.size() > rows.size()) continue;
    Eigen::MatrixXd matrix(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(chosen.size()));
    Eigen::VectorXd scale = Eigen::VectorXd::Zero(matrix.cols());
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t k = 0; k < chosen.size(); ++k)
        matrix(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(k)) = rows[i][chosen[k]] / values[i];
    // FLOPs and constants differ by many orders of magnitude: normalized columns keep the rank test reliable.
    bool zero_column = false;
    for (Eigen::Index k = 0; k < matrix.cols(); ++k) {
      scale[k] = matrix.col(k).norm();
      zero_column = zero_column || !(scale[k] > 0);
      if (scale[k] > 0) matrix.col(k) /= scale[k];
    }
    if (zero_column) continue;
    const auto factors = matrix.colPivHouseholderQr();
    if (factors.rank() < matrix.cols()) continue;
    const Eigen::VectorXd solution = factors.solve(Eigen::VectorXd::Ones(matrix.rows()));
    std::vector<double> coefficients(terms, 0.0);
    bool positive = true;
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      const auto at = static_cast<Eigen::Index>(k);
      coefficients[chosen[k]] = solution[at] / scale[at];
      positive = positive && solution[at] > 0 && std::isfinite(coefficients[chosen[k]]);
    }
    if (!positive) continue;
    const double error = relative_error(rows, values, coefficients);
    if (error < least) {
      least = error;
      best = std::move(coefficients);
    }
  }
  return best;
}

double r_squared(std::span<const double> values, std::span<const double> fitted) {
  const double mean = mean_of(values);
  double residual = 0, total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    residual += (values[i] - fitted[i]) * (values[i] - fitted[i]);
    total += (values[i] - mean) * (values[i] - mean);
  }
  if (total > 0) return 1 - residual / total;
  return residual > 0 ? 0 : 1;
}

}  // namespace trainyard::calibrate
