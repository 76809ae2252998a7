#pragma once

#include <iosfwd>

#include "trainyard/place/pesto/makespan_program.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Writes the integer program of placement and order (place/pesto/makespan_program.hpp) in the LP format of CPLEX,
/// which CBC, GLPK, SCIP, HiGHS and Gurobi read. `program` must be that of `problem`. Times are in the program's unit.
void write_lp(const Problem& problem, const MakespanProgram& program, std::ostream& out);

/// Writes the problem as a MiniZinc model with times in nanoseconds: variables for the ops' devices, cumulative
/// constraints for devices and links. `limit` is an upper bound, the makespan of some schedule. Throws InputError
/// ("too-large") if the tables have more than limits::kTableNumbers numbers.
void write_minizinc(const Problem& problem, Nanoseconds limit, std::ostream& out);

}  // namespace trainyard
