#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <vector>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/solve/basis_inverse.hpp"
#include "trainyard/solve/linear_program.hpp"

namespace trainyard {
namespace {

using detail::BasisInverse;

constexpr double kFeasible = 1e-9;  // tolerance by which a value may exceed its bound
constexpr double kReduced = 1e-9;   // smaller reduced costs count as zero
constexpr double kPivot = 1e-9;     // smaller column entries count as zero
constexpr std::size_t kRefresh = 100;
constexpr std::size_t kPatience = 200;

/// The variables are the program's columns and one variable r per row, the negative of the row's value: A x + r = 0.
class Simplex {
 public:
  Simplex(const LinearProgram& program, const SimplexBasis& start)
      : rows_(program.rows()), columns_(program.columns()), basis_(rows_), work_(rows_), prices_(rows_) {
    const std::size_t all = columns_ + rows_;
    std::vector<std::size_t> count(all + 1, 0);
    for (std::size_t i = 0; i < rows_; ++i)
      for (const auto& term : program.terms(i)) ++count[term.column + 1];
    for (std::size_t i = 0; i < rows_; ++i) count[columns_ + i + 1] = 1;
    for (std::size_t j = 0; j < all; ++j) count[j + 1] += count[j];
    first_ = count;
    entries_.resize(first_.back());
    for (std::size_t i = 0; i < rows_; ++i) {
      for (const auto& term : program.terms(i))
        entries_[count[term.column]++] = {static_cast<std::uint32_t>(i), term.coefficient};
      entries_[count[columns_ + i]] = {static_cast<std::uint32_t>(i), 1.0};
    }
    for (std::size_t j = 0; j < columns_; ++j) {
      cost_.push_back(program.cost(j));
      lower_.push_back(program.lower(j));
      upper_.push_back(program.upper(j));
    }
    for (std::size_t i = 0; i < rows_; ++i) {
      cost_.push_back(0);
      lower_.push_back(-program.row_upper(i));
      upper_.push_back(-program.row_lower(i));
    }
    value_.resize(all);
    in_basis_.assign(all, 0);
    length_.resize(all);
    for (std::size_t j = 0; j < all; ++j) {
      value_[j] = std::isfinite(lower_[j]) ? lower_[j] : std::isfinite(upper_[j]) ? upper_[j] : 0.0;
      double squares = 1;
      for (const auto& entry : column(j)) squares += entry.value * entry.value;
      length_[j] = std::sqrt(squares);
    }
    for (std::size_t i = 0; i < rows_; ++i) basis_[i] = columns_ + i;
    if (start.columns.empty() && start.rows.empty()) {
      for (const std::size_t j : basis_) in_basis_[j] = 1;
      compute_basic_values();
    } else {
      begin(start);
    }
  }

  LinearSolution solve(const SimplexOptions& options) {
    LinearSolution solution;
    double reached = LinearProgram::kInfinity;
    std::size_t idle = 0;
    bool phase_one = infeasibility() > 0;
    for (;; ++solution.pivots) {
      if (inverse_.updates() >= kRefresh) {
        refresh();
        solution.work += rows_ * (rows_ + inverse_.size() / 2);
      }
      solution.work += entries_.size() + 4 * rows_ + columns_ + 2 * inverse_.size();
      const double sum = infeasibility();
      const bool phase_one_now = sum > 0;
      if (phase_one_now != phase_one) reached = LinearProgram::kInfinity;
      phase_one = phase_one_now;
      const double goal = phase_one ? sum : objective(value_);
      idle = goal < reached - 1e-12 * (1 + std::abs(reached)) || reached == LinearProgram::kInfinity ? 0 : idle + 1;
      reached = std::min(reached, goal);

      if (solution.pivots >= options.most_pivots || solution.work >= options.most_work)
        return finish(solution, LinearSolution::Status::stopped);
      const Entering entering = price(phase_one, idle > kPatience);
      if (entering.variable == kNone) {
        if (inverse_.updates() > 0) {  // price again without accumulated rounding errors
          refresh();
          if (price(infeasibility() > 0, false).variable != kNone) continue;
        }
        return finish(solution,
                      infeasibility() > 0 ? LinearSolution::Status::infeasible : LinearSolution::Status::optimal);
      }
      if (!step(entering, phase_one, idle > kPatience)) return finish(solution, LinearSolution::Status::unbounded);
    }
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct Entering {
    std::size_t variable = kNone;
    double direction = 0;  // +1: rises, -1: falls
  };

  std::span<const BasisInverse::Entry> column(std::size_t j) const {
    return std::span{entries_}.subspan(first_[j], first_[j + 1] - first_[j]);
  }
  void begin(const SimplexBasis& start) {
    if (start.columns.size() > columns_ || start.rows.size() > rows_)
      refuse("range",
             fmt::format("a basis of {} and {} does not fit a linear program of {} and {}",
                         counted(start.columns.size(), "column"), counted(start.rows.size(), "row"),
                         counted(columns_, "column"), counted(rows_, "row")),
             "start from a basis of the program's first columns and rows");
    std::vector<std::size_t> basic;
    const auto put = [&](std::size_t j, SimplexBasis::At at) {
      if (at == SimplexBasis::At::basic) basic.push_back(j);
      if (at == SimplexBasis::At::upper && std::isfinite(upper_[j])) value_[j] = upper_[j];
    };
    for (std::size_t j = 0; j < start.columns.size(); ++j) put(j, start.columns[j]);
    for (std::size_t i = 0; i < rows_; ++i)
      put(columns_ + i, i < start.rows.size() ? start.rows[i] : SimplexBasis::At::basic);
    basis_ = std::move(basic);
    refresh();
  }

  bool below(std::size_t j) const { return value_[j] < lower_[j] - kFeasible; }
  bool above(std::size_t j) const { return value_[j] > upper_[j] + kFeasible; }

  double infeasibility() const {
    double sum = 0;
    for (const std::size_t j : basis_) sum += below(j) ? lower_[j] - value_[j] : above(j) ? value_[j] - upper_[j] : 0.0;
    return sum;
  }
  double objective(const std::vector<double>& x) const {
    double sum = 0;
    for (std::size_t j = 0; j < columns_; ++j) sum += cost_[j] * x[j];
    return sum;
  }

  void compute_basic_values() {
    std::ranges::fill(work_, 0.0);
    for (std::size_t j = 0; j < value_.size(); ++j)
      if (!in_basis_[j] && value_[j] != 0)
        for (const auto& entry : column(j)) work_[entry.row] -= entry.value * value_[j];
    inverse_.forward(work_);
    for (std::size_t i = 0; i < rows_; ++i) value_[basis_[i]] = work_[i];
  }

  void refresh() {
    std::vector<std::span<const BasisInverse::Entry>> columns;
    std::vector<std::size_t> variables;
    // Unit columns get no special treatment: they may also stand in another row than their own.
    for (const std::size_t j : basis_) {
      variables.push_back(j);
      columns.push_back(column(j));
      in_basis_[j] = 0;
    }
    const std::vector<std::uint32_t> rows = inverse_.invert(columns);
    basis_.assign(rows_, kNone);
    for (std::size_t c = 0; c < variables.size(); ++c) {
      if (rows[c] == BasisInverse::kNoRow) {
        value_[variables[c]] = std::clamp(value_[variables[c]], lower_[variables[c]], upper_[variables[c]]);
        continue;
      }
      basis_[rows[c]] = variables[c];
      in_basis_[variables[c]] = 1;
    }
    for (std::size_t i = 0; i < rows_; ++i)  // the row's own variable replaces a linearly dependent column
      if (basis_[i] == kNone) {
        basis_[i] = columns_ + i;
        in_basis_[columns_ + i] = 1;
      }
    compute_basic_values();
  }

  double phase_cost(std::size_t j, bool phase_one) const {
    return !phase_one ? cost_[j] : !in_basis_[j] ? 0.0 : below(j) ? -1.0 : above(j) ? 1.0 : 0.0;
  }

  Entering price(bool phase_one, bool lowest_index) {
    for (std::size_t i = 0; i < rows_; ++i) prices_[i] = phase_cost(basis_[i], phase_one);
    inverse_.backward(prices_);
    Entering best;
    double most = 0;
    for (std::size_t j = 0; j < value_.size(); ++j) {
      if (in_basis_[j] || lower_[j] == upper_[j]) continue;
      double reduced = phase_one ? 0.0 : cost_[j];
      for (const auto& entry : column(j)) reduced -= prices_[entry.row] * entry.value;
      const bool rises = reduced < -kReduced && value_[j] < upper_[j];
      const bool falls = reduced > kReduced && value_[j] > lower_[j];
      if (!rises && !falls) continue;
      const double gain = std::abs(reduced) / length_[j];
      if (gain <= most) continue;
      most = gain;
      best = {j, rises ? 1.0 : -1.0};
      if (lowest_index) break;
    }
    return best;
  }

  /// Moves the variable as far as it can go. Returns false if it can go without end.
  bool step(const Entering& entering, bool phase_one, bool lowest_index) {
    std::ranges::fill(work_, 0.0);
    for (const auto& entry : column(entering.variable)) work_[entry.row] = entry.value;
    inverse_.forward(work_);

    // The distance at which each basic variable stops the move: a feasible one at the bound that it reaches, an
    // infeasible one at the bound at which it becomes feasible.
    const auto stop = [&](std::size_t i, double slack) {
      const double speed = -entering.direction * work_[i];
      if (std::abs(speed) < kPivot) return LinearProgram::kInfinity;
      const std::size_t j = basis_[i];
      double bound = speed > 0 ? upper_[j] : lower_[j];
      if (phase_one && below(j)) bound = speed > 0 ? lower_[j] : -LinearProgram::kInfinity;
      if (phase_one && above(j)) bound = speed < 0 ? upper_[j] : LinearProgram::kInfinity;
      if (!std::isfinite(bound)) return LinearProgram::kInfinity;
      return std::max(0.0, ((bound - value_[j]) * (speed > 0 ? 1 : -1) + slack) / std::abs(speed));
    };
    const double own = upper_[entering.variable] - lower_[entering.variable];
    double reach = LinearProgram::kInfinity;
    for (std::size_t i = 0; i < rows_; ++i) reach = std::min(reach, stop(i, lowest_index ? 0.0 : kFeasible));
    if (own <= reach) {
      if (!std::isfinite(own)) return false;
      move(entering, own);
      value_[entering.variable] = entering.direction > 0 ? upper_[entering.variable] : lower_[entering.variable];
      return true;
    }
    std::size_t leaving = kNone;  // among those that stop it first, the one with the largest entry
    for (std::size_t i = 0; i < rows_; ++i) {
      if (std::abs(work_[i]) < kPivot || stop(i, 0.0) > reach) continue;
      if (leaving == kNone ||
          (lowest_index ? basis_[i] < basis_[leaving] : std::abs(work_[i]) > std::abs(work_[leaving])))
        leaving = i;
    }
    assert(leaving != kNone);
    const std::size_t out = basis_[leaving];
    const double speed = -entering.direction * work_[leaving];
    double bound = speed > 0 ? upper_[out] : lower_[out];
    if (phase_one && below(out)) bound = lower_[out];
    if (phase_one && above(out)) bound = upper_[out];
    move(entering, stop(leaving, 0.0));
    value_[out] = bound;
    in_basis_[out] = 0;
    in_basis_[entering.variable] = 1;
    basis_[leaving] = entering.variable;
    inverse_.replace(leaving, work_);
    return true;
  }

  void move(const Entering& entering, double length) {
    if (length == 0) return;
    value_[entering.variable] += entering.direction * length;
    for (std::size_t i = 0; i < rows_; ++i)
      if (work_[i] != 0) value_[basis_[i]] -= entering.direction * length * work_[i];
  }

  LinearSolution finish(LinearSolution solution, LinearSolution::Status status) const {
    solution.status = status;
    solution.x.assign(value_.begin(), value_.begin() + static_cast<std::ptrdiff_t>(columns_));
    for (std::size_t j = 0; j < columns_; ++j) solution.x[j] = std::clamp(solution.x[j], lower_[j], upper_[j]);
    solution.value = objective(solution.x);
    if (status == LinearSolution::Status::optimal) solution.prices = prices_;
    solution.feasible = infeasibility() <= 1e-7;
    const auto at = [&](std::size_t j) {
      if (in_basis_[j]) return SimplexBasis::At::basic;
      return value_[j] == upper_[j] ? SimplexBasis::At::upper : SimplexBasis::At::lower;
    };
    for (std::size_t j = 0; j < columns_; ++j) solution.basis.columns.push_back(at(j));
    for (std::size_t i = 0; i < rows_; ++i) solution.basis.rows.push_back(at(columns_ + i));
    return solution;
  }

  std::size_t rows_, columns_;
  std::vector<std::size_t> first_;  // start of each variable's column
  std::vector<BasisInverse::Entry> entries_;
  std::vector<double> cost_, lower_, upper_, value_, length_;
  BasisInverse inverse_{rows_};
  std::vector<std::size_t> basis_;  // by row
  std::vector<char> in_basis_;
  std::vector<double> work_, prices_;
};

}  // namespace

LinearSolution solve_by_simplex(const LinearProgram& program, const SimplexOptions& options) {
  return Simplex{program, options.start}.solve(options);
}

}  // namespace trainyard
