#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace trainyard {

/// minimize  cost . x   subject to   row lower <= A x <= row upper   and   lower <= x <= upper
///
/// A is stored by rows. Bounds may be infinite. Coefficients should be within a few powers of ten of 1, because the
/// solvers' tolerances are absolute.
class LinearProgram {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Term {
    std::uint32_t column;
    double coefficient;
  };

  /// Adds a column and returns its number, from 0. This and add_row() throw InputError ("range"): crossing bounds,
  /// numbers that are not finite but should be, a column that has not been added yet.
  std::uint32_t add_column(double cost, double lower, double upper);
  /// Adds a row, in which each column occurs at most once, and returns its number, from 0.
  std::uint32_t add_row(double lower, double upper, std::span<const Term> terms);

  std::size_t columns() const { return cost_.size(); }
  std::size_t rows() const { return row_lower_.size(); }
  double cost(std::size_t column) const { return cost_[column]; }
  double lower(std::size_t column) const { return lower_[column]; }
  double upper(std::size_t column) const { return upper_[column]; }
  double row_lower(std::size_t row) const { return row_lower_[row]; }
  double row_upper(std::size_t row) const { return row_upper_[row]; }
  std::span<const Term> terms(std::size_t row) const {
    return std::span{terms_}.subspan(first_[row], first_[row + 1] - first_[row]);
  }

 private:
  std::vector<double> cost_, lower_, upper_, row_lower_, row_upper_;
  std::vector<std::size_t> first_{0};
  std::vector<Term> terms_;
};

namespace detail {
/// Whether some column is unbounded in a direction in which its cost falls, or has zero cost and no bounds at all.
/// Otherwise the program cannot be unbounded.
bool may_fall_for_ever(const LinearProgram& program);
}  // namespace detail

/// A simplex basis: the final basis of a solution, or a warm start for a program with additional columns, rows, or
/// both.
struct SimplexBasis {
  enum class At : std::uint8_t { lower, upper, basic };  // nonbasic free variables are 0 and count as `lower`
  std::vector<At> columns{}, rows{};
};

struct LinearSolution {
  enum class Status : std::uint8_t { optimal, infeasible, unbounded, stopped };

  Status status = Status::stopped;
  double value = 0;                 // objective of x
  std::vector<double> x;            // if stopped, feasible only if `feasible`
  std::vector<double> prices = {};  // simplex, optimal: dual prices, the change of `value` per unit of a row's bounds
  bool feasible = false;            // x satisfies all bounds within 1e-7
  SimplexBasis basis = {};          // simplex only
  std::size_t pivots = 0;           // including bound flips
  std::uint64_t work = 0;           // simplex only: approximate number of numbers processed; 10^9 take about a second
};

struct SimplexOptions {
  std::size_t most_pivots = std::numeric_limits<std::size_t>::max();
  std::uint64_t most_work = std::numeric_limits<std::uint64_t>::max();  // see LinearSolution::work
  /// Warm start: the basis of the program's first columns and rows. Further columns start at their lower bounds,
  /// further rows in the basis.
  SimplexBasis start = {};
};

/// The revised bounded primal simplex method. The basis inverse is a product of elementary matrices, rebuilt every 100
/// pivots with the triangular parts of the basis first. Phase one minimizes the sum of infeasibilities. The column with
/// the largest reduced cost relative to its length enters; after 200 pivots without progress the column with the lowest
/// index, which prevents cycling (Bland). The initial basis consists of the rows' own variables, or is
/// SimplexOptions::start. For small and medium programs: every pivot prices all columns.
///
/// R. G. Bland: New finite pivoting rules for the simplex method. Mathematics of Operations Research 2(2), 1977.
/// V. Chvatal: Linear Programming. Freeman, 1983, chapters 7 and 8, for the rest.
///
/// Throws InputError ("range") if the start has more columns or rows than the program.
LinearSolution solve_by_simplex(const LinearProgram& program, const SimplexOptions& options = {});

/// Whether this build has CBC's linear solver Clp.
bool has_clp();
/// `stop` is called after each iteration and ends the run if true. Throws MissingError if this build has no Clp, and
/// InputError ("solver") for an error in Clp.
LinearSolution solve_by_clp(const LinearProgram& program, const std::function<bool()>& stop = {});

}  // namespace trainyard
