#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "trainyard/core/quantity.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

enum class PestoSolver : std::uint8_t {
  automatic,  // cbc for up to kPestoProgramOps ops where the build has it, else own
  cbc,        // the integer program
  own,        // the same problem without a program: branch_and_bound() for up to kPestoExactOps ops, else auto_place()
};
inline constexpr std::size_t kPestoProgramOps = 30, kPestoExactOps = 64;

struct PestoOptions {
  PestoSolver solver = PestoSolver::automatic;
  std::int64_t nodes = 500;              // of CBC's search tree; branch and bound has a hundred times as many
  std::uint64_t evaluations = 50'000;    // of auto_place()
  std::optional<double> seconds = {};    // of it all; with it the result depends on the machine
  std::size_t most_columns = 20'000;     // of the program
  std::function<bool()> stop = {};       // asked now and then
  std::uint64_t seed = 1;                // of auto_place()
  unsigned threads = 0;                  // of auto_place()
  std::span<const Placer> members = {};  // of auto_place()
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

/// Solves Pesto's integer program (makespan_program.hpp), which the paper gives to CPLEX for minutes to hours. Larger
/// ones than CBC solves are searched: auto_place() without splits, whose neighbourhoods branch and bound solves. By
/// CBC, from the best quick schedule, whose makespan is the cutoff. The solution's order is replayed under
/// Policy::strict, then as priorities: where neither gives the objective (to a part in a million) or the result does
/// not fit in memory, the solution is rejected, because the simulator's links do not wait; branch and bound then looks
/// for the best order of its placement. Throws MissingError for PestoSolver::cbc without CBC; InputError where the
/// program is too large ("too-large").
PestoResult solve_pesto(const Problem& problem, const PestoOptions& options = {});

/// Pesto: coarsens to `target` ops, solves, expands with merged ops in order (place/judge/coarse.hpp). Coarse ops hold
/// all that their ops keep at once: where the result does not fit in memory, and some quick placer's schedule of the
/// graph itself does, that one.
Schedule pesto(const Problem& problem, std::size_t target, const PestoOptions& options = {});

}  // namespace trainyard
