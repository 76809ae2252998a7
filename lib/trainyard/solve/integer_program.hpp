#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/solve/linear_program.hpp"

namespace trainyard {

/// A linear program to be minimized, some of whose columns take only whole values.
struct IntegerProgram {
  LinearProgram linear;
  std::vector<std::uint32_t> whole;  // integer columns
};

struct IntegerOptions {
  /// A known solution, with a value per column: the incumbent from which the search starts.
  std::vector<double> start = {};
  std::optional<double> seconds = {};      // time limit of the search; the result then depends on the machine
  std::optional<std::int64_t> nodes = {};  // limit on nodes of the search tree
  double gap = 0;                          // relative gap at which the search may end
  std::function<bool()> stop = {};         // called often; if true, ends with the best solution so far, without a bound
};

struct IntegerSolution {
  enum class Status : std::uint8_t { optimal, feasible, infeasible, unbounded, stopped };  // stopped: none in time

  Status status = Status::stopped;
  double value = 0;        // objective of x
  double bound = 0;        // lower bound on all solutions; meaningless if infeasible or unbounded; -infinity: unknown
  std::int64_t nodes = 0;  // number of nodes of the search tree
  std::vector<double> x;   // if optimal, feasible or unbounded; bounds and whole numbers hold within 1e-6
};

/// Whether this build has CBC, the branch-and-cut solver of COIN-OR.
bool has_cbc();
/// Throws MissingError if it has not. Throws InputError: "range" (an integer column that does not exist), "size" (a
/// start with another number of columns), "solver" (an error in CBC).
IntegerSolution solve_by_cbc(const IntegerProgram& program, const IntegerOptions& options = {});

}  // namespace trainyard
