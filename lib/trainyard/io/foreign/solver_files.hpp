#pragma once

#include <iosfwd>

#include "trainyard/place/pesto/makespan_program.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// The integer program of placement and order (place/pesto/makespan_program.hpp) in the LP format of CPLEX, which CBC,
/// GLPK, SCIP, HiGHS and Gurobi read. The program is of this problem; times are in its unit.
void write_lp(const Problem& problem, const MakespanProgram& program, std::ostream& out);

/// The problem for MiniZinc, in nanoseconds: devices as variables, cumulative constraints on devices and links.
/// `limit`: a makespan that some schedule has.
void write_minizinc(const Problem& problem, Nanoseconds limit, std::ostream& out);

}  // namespace trainyard
