#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// Lower bound in the throughput model (throughput/evaluate.hpp), for all placements that respect memory, device kinds
/// and colors, contiguous or not. (The optimum over contiguous splits, found by the dynamic program over ideals, is not
/// such a bound: other splits may be better.)
///
/// The bounds hold for every LoadSum and LoadGoal unless stated otherwise. A load is at least its compute time, and the
/// sum of the largest forward and the largest backward load is at least the largest load of both passes.
struct LoadBound {
  std::string name;
  Picoseconds value;

  friend bool operator==(const LoadBound&, const LoadBound&) = default;
};

/// The longest op, on its fastest kind. Proof: some device runs it.
Picoseconds load_op_bound(const LoadProblem& problem);

/// All work over all devices: the linear program
///
///     minimize T    sum over kinds k of D(k) x(c, k) = 1,  x >= 0                  each color c
///                   sum over c of time(c, k) x(c, k) <= T                          each kind k, of D(k) devices
///                   sum over c of size(c) x(c, k) <= memory(k)                     each kind with a capacity
///
/// Proof: given a placement of value L, let x(c, k) be the share of the devices of kind k that run c. It satisfies all
/// rows with T = L, since each is a sum over the kind's devices divided by D(k). Solved by Clp if the build has it,
/// else by Trainyard's simplex method. The result is lowered by a millionth for the solver's tolerances, and is at
/// least load_lower_bound(), also if no solver ends in time.
Picoseconds load_work_bound(const LoadProblem& problem);

/// The relaxation of the published integer program (place/load/load_program.hpp), which includes communication: the
/// program of load_work_bound, with
///
///     in(t, k) >= x(reader, k) - x(producer, k),  out(t, k) >= x(producer, k) - x(reader, k)    each reader of t
///     sum over c of time(c, k) x(c, k) + sum over t of cost(t, k) (in(t, k) + out(t, k)) <= T
///
/// for LoadSum::added; other values of `sum` combine compute, in and out differently. Proof: the program with separate
/// variables for every device is a relaxation. Its solutions remain solutions if devices of one kind are permuted, and
/// so does their mean over all permutations, as the rows are convex; x, in and out here are that mean. If all devices
/// are equal and memory does not bind, x = 1/D has no communication, and the bound is load_work_bound. Returns 0 for
/// programs that are too large or take too long.
Picoseconds load_relaxation_bound(const LoadProblem& problem, LoadSum sum = LoadSum::added);

/// The load of the busiest device. With B the largest of the bounds by op, color and work,
///
///     min over kinds k, over sets S of colors with compute time(S, k) >= B and size(S) <= memory(k), of load(S, k)
///
/// Proof: B is a lower bound on the largest compute time of a device. So in every placement, some device of some kind
/// runs such a set S, and the value is at least load(S). Each kind that pays for communication takes an integer
/// program, with the bound that CBC proves within `nodes` nodes. Returns B without CBC, for more than a thousand
/// columns, and if a kind that does not pay can run that much. After A. Archer, M. Fahrbach, K. Liu, P. Prabhu:
/// Practical performance guarantees for pipelined DNN inference, arXiv 2311.03703; their blocks before and after the
/// bottleneck need contiguous splits.
Picoseconds load_block_bound(const LoadProblem& problem, LoadSum sum = LoadSum::added, std::int64_t nodes = 200);

/// All bounds by name: "load-op", "load-color", "load-work", "load-relaxation", "load-block". Without `communication`,
/// only the first three, which hold for any transfer costs.
std::vector<LoadBound> load_bounds(const LoadProblem& problem, const LoadOptions& options = {},
                                   bool communication = true);
/// The largest of load_bounds(); the first of equals.
LoadBound best_load_bound(const LoadProblem& problem, const LoadOptions& options = {}, bool communication = true);

}  // namespace trainyard
