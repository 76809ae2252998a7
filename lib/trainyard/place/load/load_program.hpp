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
  /// The forward ops of a device are a convex set: nothing that comes after one of them and before another lies
  /// elsewhere. Devices may still hand work around in a circle, so this can be below the best contiguous split.
  bool contiguous = false;
  std::optional<double> seconds = {};
  std::optional<std::int64_t> nodes = {};
  double gap = 0;
  std::size_t most_columns = 100'000;
  std::optional<LoadPlacement> start = {};  // one that is known; it is neglected where it breaks a rule
  std::function<bool()> stop = {};          // IntegerOptions::stop
};

struct LoadProgramResult {
  bool optimal = false;                         // within the gap
  bool infeasible = false;                      // proven: there is no placement
  std::optional<LoadPlacement> placement = {};  // feasible by evaluate_load()
  Picoseconds value = kInfiniteLoad;            // what evaluate_load() says of it
  Picoseconds bound{};                          // no placement is below it
};

/// The published integer program, solved by CBC. With x(c, i): color c is on device i; in(t, i), out(t, i) at least 0:
/// device i receives, sends tensor t:
///
///     sum over i of x(c, i) = 1;   x(c, i) = 0 where c cannot run on i
///     sum over c of size(c) x(c, i) <= memory(i)
///     in(t, i)  >= x(reader, i) - x(producer, i)      out(t, i) >= x(producer, i) - x(reader, i)
///     minimize L,   L >= sum over c of time(c, i) x(c, i) + sum over t of cost(t) (in(t, i) + out(t, i))
///
/// or the sums and goals that LoadOptions names. Contiguous, with z(v, i): v can still reach work of device i, for
/// forward ops v:  z(v, i) >= x(v, i);  z(v, i) <= z(u, i) and z(v, i) <= x(v, i) - x(u, i) + 1 for each edge u to v.
/// Devices of one kind are told apart by their first color, the colors by descending time. Every answer is evaluated
/// again; one whose value is not the program's is rejected. Throws MissingError without CBC; InputError ("too-large")
/// beyond the columns.
///
/// J. Tarnawski et al., NeurIPS 2020, section 5 and the authors' program.
LoadProgramResult solve_load_program(const LoadProblem& problem, const LoadProgramOptions& options = {});
/// Number of columns of the program.
std::size_t load_program_columns(const LoadProblem& problem, const LoadProgramOptions& options = {});

}  // namespace trainyard
