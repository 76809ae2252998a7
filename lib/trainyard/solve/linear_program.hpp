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
/// A is kept by rows, as it is written down. Bounds may be infinite. Numbers should be within a few powers of ten of 1:
/// the solvers' tolerances are absolute.
class LinearProgram {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Term {
    std::uint32_t column;
    double coefficient;
  };

  /// The number of the new column, from 0. This and add_row() throw InputError ("range"): bounds that cross, numbers
  /// that are not finite where they should be, a column that is not there yet.
  std::uint32_t add_column(double cost, double lower, double upper);
  /// Each column once at most. Its number, from 0.
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
/// Whether a column has no bound on the side to which its cost falls, or where it costs nothing, on either: else the
/// program is not unbounded.
bool may_fall_for_ever(const LinearProgram& program);
}  // namespace detail

/// Where the simplex method ends, and can begin with a program that has more columns, more rows, or both.
struct SimplexBasis {
  enum class At : std::uint8_t { lower, upper, basic };  // a free variable outside of the basis is 0: `lower`
  std::vector<At> columns{}, rows{};
};

struct LinearSolution {
  enum class Status : std::uint8_t { optimal, infeasible, unbounded, stopped };

  Status status = Status::stopped;
  double value = 0;                 // of x
  std::vector<double> x;            // stopped: feasible if `feasible`
  std::vector<double> prices = {};  // optimal, by the simplex method: by row, how fast `value` rises with its bounds
  bool feasible = false;            // x keeps all bounds, within 1e-7
  SimplexBasis basis = {};          // by the simplex method
  std::size_t pivots = 0;           // bound flips included
  std::uint64_t work = 0;           // of the simplex method: numbers gone through, roughly; 10^9 take about a second
};

struct SimplexOptions {
  std::size_t most_pivots = std::numeric_limits<std::size_t>::max();
  std::uint64_t most_work = std::numeric_limits<std::uint64_t>::max();  // see LinearSolution::work
  /// That of the program's first columns and rows: columns beyond begin at their lower bounds, rows in the basis.
  SimplexBasis start = {};
};

/// The bounded primal simplex method, in its revised form: the basis inverse is a product of elementary matrices, made
/// anew every 100 pivots, triangular parts of the basis first; phase one minimizes the sum of infeasibilities; the
/// column of the largest reduced cost relative to its length enters, after 200 pivots without progress that of the
/// lowest index, which cannot cycle (Bland). It begins with the rows' own variables, or at SimplexOptions::start. For
/// small and middling programs: every pivot prices all columns.
///
/// R. G. Bland: New finite pivoting rules for the simplex method. Mathematics of Operations Research 2(2), 1977.
/// The rest as in V. Chvatal: Linear Programming. Freeman, 1983, chapters 7 and 8.
///
/// Throws InputError ("range"): a start of more columns or rows than the program has.
LinearSolution solve_by_simplex(const LinearProgram& program, const SimplexOptions& options = {});

/// Whether this build has CBC's linear solver Clp.
bool has_clp();
/// `stop`, asked after each iteration, ends it. Throws MissingError where it has not, InputError ("solver") where Clp
/// itself refuses.
LinearSolution solve_by_clp(const LinearProgram& program, const std::function<bool()>& stop = {});

}  // namespace trainyard
