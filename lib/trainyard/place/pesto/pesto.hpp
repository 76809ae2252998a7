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
  automatic,  // cbc for up to kPestoProgramOps ops if the build has it, else own
  cbc,        // the integer program
  own,        // without a program: branch_and_bound() for up to kPestoExactOps ops, else auto_place()
};
inline constexpr std::size_t kPestoProgramOps = 30, kPestoExactOps = 64;

struct PestoOptions {
  PestoSolver solver = PestoSolver::automatic;
  std::int64_t nodes = 500;              // of CBC's search tree; branch and bound gets a hundred times as many
  std::uint64_t evaluations = 50'000;    // of auto_place()
  std::optional<double> seconds = {};    // for all of it; makes the result depend on the machine
  std::size_t most_columns = 20'000;     // of the program
  std::function<bool()> stop = {};       // polled now and then
  std::uint64_t seed = 1;                // of auto_place()
  unsigned threads = 0;                  // of auto_place()
  std::span<const Placer> members = {};  // of auto_place()
};

struct PestoResult {
  Schedule schedule;       // the program's if the simulator confirms it, else the shortest known
  Nanoseconds value;       // its simulated makespan
  Nanoseconds objective;   // the solution's value by the program; the start's makespan if none was found
  Nanoseconds bound;       // lower bound on the schedules that fit in memory
  bool confirmed = false;  // simulating the solution's order gives its objective
  bool optimal = false;    // no schedule that fits is shorter than `value`
  std::uint64_t nodes = 0;
};

/// Solves Pesto's integer program (makespan_program.hpp), for which the paper gives CPLEX minutes to hours. Problems
/// that are too large for CBC and for branch and bound are searched: auto_place() without splits, whose neighbourhoods
/// branch and bound solves. CBC starts from the best quick schedule, whose makespan is the cutoff. The solution's order
/// is replayed under Policy::strict, then as priorities. If neither gives the objective (to a part in a million) or the
/// result does not fit in memory, the solution is rejected, because the simulator's links do not wait. Branch and bound
/// then searches for the best order of its placement. Throws MissingError for PestoSolver::cbc without CBC; InputError
/// "too-large" if the program is too large.
PestoResult solve_pesto(const Problem& problem, const PestoOptions& options = {});

/// Pesto: coarsens to `target` ops, solves, and expands with merged ops in order (place/judge/coarse.hpp). A coarse op
/// holds all that its ops keep at once. If the result does not fit in memory and the schedule of some quick placer for
/// the graph itself does, that one is returned.
Schedule pesto(const Problem& problem, std::size_t target, const PestoOptions& options = {});

}  // namespace trainyard
