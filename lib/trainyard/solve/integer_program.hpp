#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/solve/linear_program.hpp"

namespace trainyard {

/// A linear program some of whose columns take whole values only. It is minimized.
struct IntegerProgram {
  LinearProgram linear;
  std::vector<std::uint32_t> whole;  // columns
};

struct IntegerOptions {
  /// A solution that is known, a value for each column: where the search starts, and what it has to beat.
  std::vector<double> start = {};
  std::optional<double> seconds = {};      // of search; with it the result depends on the machine
  std::optional<std::int64_t> nodes = {};  // of the search tree
  double gap = 0;                          // share of the value at which the search may end
  std::function<bool()> stop = {};         // asked often: ends with the best so far, without a bound
};

struct IntegerSolution {
  enum class Status : std::uint8_t { optimal, feasible, infeasible, unbounded, stopped };  // stopped: none in time

  Status status = Status::stopped;
  double value = 0;        // of x
  double bound = 0;        // no solution is below it; meaningless if infeasible or unbounded; -infinity: none known
  std::int64_t nodes = 0;  // of the search tree
  std::vector<double> x;   // optimal, feasible, unbounded; within 1e-6 of all bounds and of whole numbers
};

/// Whether this build has CBC, the branch and cut of COIN-OR.
bool has_cbc();
/// Throws MissingError where it has not; InputError: "range" (a whole column that there is not), "size" (a start of
/// other columns), "solver" (CBC itself refuses).
IntegerSolution solve_by_cbc(const IntegerProgram& program, const IntegerOptions& options = {});

}  // namespace trainyard
