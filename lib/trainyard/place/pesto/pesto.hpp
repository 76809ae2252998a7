#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

enum class PestoSolver : std::uint8_t {
  automatic,  // cbc where the build has it, else own
  cbc,        // the integer program
  own,        // branch_and_bound(): the same problem without a program
};

struct PestoOptions {
  PestoSolver solver = PestoSolver::automatic;
  std::int64_t nodes = 500;            // of CBC's search tree; branch and bound has a hundred times as many
  std::optional<double> seconds = {};  // of the search; with it the result depends on the machine
  std::size_t most_columns = 20'000;   // of the program
  std::function<bool()> stop = {};     // asked by branch and bound now and then
};

struct PestoResult {
  Schedule schedule;       // the program's where the simulator confirms it, else the shortest that is known
  Nanoseconds value;       // its simulated makespan
  Nanoseconds objective;   // what the program says of its solution; the start's makespan where it found none
  Nanoseconds bound;       // no schedule that fits is shorter
  bool confirmed = false;  // replaying the solution's order gives its objective
  bool optimal = false;    // no schedule that fits is shorter than `value`
  std::uint64_t nodes = 0;
};

/// Solves Pesto's integer program (makespan_program.hpp) by CBC, from the best quick schedule, whose makespan is the
/// cutoff. The solution's order is replayed under Policy::strict, then as priorities: where neither gives the objective
/// (to a part in a million) or the result does not fit in memory, the solution is rejected, because the simulator's
/// links do not wait; branch and bound then looks for the best order of its placement.
/// Throws MissingError for PestoSolver::cbc without CBC; InputError where the program is too large ("too-large").
PestoResult solve_pesto(const Problem& problem, const PestoOptions& options = {});

/// Pesto: coarsens to `target` ops, solves, expands with merged ops in order (place/coarse.hpp). Coarse ops hold all
/// that their ops keep at once: where the result does not fit in memory, and some quick placer's schedule of the graph
/// itself does, that one.
Schedule pesto(const Problem& problem, std::size_t target, const PestoOptions& options = {});

}  // namespace trainyard
