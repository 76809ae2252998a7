#pragma once

#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/solve/linear_program.hpp"

namespace trainyard {

/// Work and memory bound by a linear program. Its dual is what work_bound and memory_work_bound search:
///
///     minimize T    sum over classes c of x(g, c) = 1,  x >= 0           each group g; classes c that can run it
///                   sum over g of p'(g, c) x(g, c) <= D(c) (T + g(c))    each class c
///                   sum over g of W(g) x(g, c) <= M(c)                   each class c whose devices have capacities
///
/// with p', g(c) as in work_bound and W, M as in bound/memory.hpp. Holds for schedules that fit in memory. Proof: a
/// schedule's assignment is a solution with its makespan as T.
///
/// Solved by Clp if the build has it, else by the simplex method of solve/. The result is lowered by a millionth for
/// their tolerances. Returns 0 if all devices are of one class (work_bound is as good), for more than 4,000 columns, if
/// the program is infeasible (no schedule fits), and if the solver runs out of effort.
Nanoseconds linear_program_bound(const Problem& problem);

namespace detail {

/// The program's minimum, by Clp or the simplex method; nothing if it is infeasible or takes too long.
std::optional<double> least_value(const LinearProgram& program);

}  // namespace detail

}  // namespace trainyard
