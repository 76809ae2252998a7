#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

struct LoadProgramOptions {
  LoadOptions goal = {};
  /// The forward ops of each device are a convex set: no path from one of them to another passes through other devices.
  /// Devices may still depend on each other in a cycle, so the optimum can be below the best contiguous split.
  bool contiguous = false;
  std::optional<double> seconds = {};
  std::optional<std::int64_t> nodes = {};
  double gap = 0;
  std::size_t most_columns = 100'000;
  std::optional<LoadPlacement> start = {};  // known placement; ignored if it violates a row
  std::function<bool()> stop = {};          // IntegerOptions::stop
};

struct LoadProgramResult {
  bool optimal = false;                         // within the gap
  bool infeasible = false;                      // proven: no placement exists
  std::optional<LoadPlacement> placement = {};  // feasible by evaluate_load()
  Picoseconds value = kInfiniteLoad;            // by evaluate_load()
  Picoseconds bound{};                          // lower bound on every placement
};

/// The published integer program, solved by CBC. x(c, i) is 1 if color c is on device i; in(t, i) and out(t, i),
/// between 0 and 1, are 1 if device i receives or sends tensor t:
///
///     sum over i of x(c, i) = 1;   x(c, i) = 0 if c cannot run on i
///     sum over c of size(c) x(c, i) <= memory(i)
///     in(t, i)  >= x(reader, i) - x(producer, i)      out(t, i) >= x(producer, i) - x(reader, i)
///     minimize L,   L >= sum over c of time(c, i) x(c, i) + sum over t of cost(t) (in(t, i) + out(t, i))
///
/// or the sums and goals of LoadOptions. For a contiguous placement z(v, i) is 1 if a path from forward op v reaches
/// work of device i:  z(v, i) >= x(v, i);  z(v, i) <= z(u, i) and z(v, i) <= x(v, i) - x(u, i) + 1 for each edge u to
/// v. The symmetry of devices of one kind is broken by their first color, with the colors by descending time. Every
/// answer is evaluated again, and rejected if it is worse than the program says. Throws MissingError without CBC;
/// InputError "too-large" if there are more than `most_columns` columns.
///
/// J. Tarnawski et al., NeurIPS 2020, section 5 and the authors' program.
LoadProgramResult solve_load_program(const LoadProblem& problem, const LoadProgramOptions& options = {});
/// Number of columns of the program.
std::size_t load_program_columns(const LoadProblem& problem, const LoadProgramOptions& options = {});

}  // namespace trainyard
