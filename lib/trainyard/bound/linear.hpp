#pragma once

#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/solve/linear_program.hpp"

namespace trainyard {

/// Work and memory bound, by the linear program whose dual work_bound and memory_work_bound search:
///
///     minimize T    sum over classes c of x(g, c) = 1,  x >= 0           each group g; c that can run it
///                   sum over g of p'(g, c) x(g, c) <= D(c) (T + g(c))    each class c
///                   sum over g of W(g) x(g, c) <= M(c)                   each class c with capacities
///
/// with p', g(c) as in work_bound and W, M as in bound/memory.hpp. Proof: a schedule's assignment is a solution with
/// its makespan as T. Solved by Clp where the build has it, else by the simplex method of solve/; a millionth is taken
/// off for their tolerances. 0 where all devices are of one class (work_bound is as good), for more than 4,000 columns,
/// and where no schedule fits. Holds for schedules that fit in memory.
Nanoseconds linear_program_bound(const Problem& problem);

namespace detail {

/// The program's least value, by Clp or the simplex method; none where it is infeasible, or takes too long.
std::optional<double> least_value(const LinearProgram& program);

}  // namespace detail

}  // namespace trainyard
