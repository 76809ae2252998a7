#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// Bounds of the throughput model (throughput/evaluate.hpp): no placement that keeps memory, device kinds and colors
/// has a smaller value, contiguous or not. The optimum over contiguous splits, which the dynamic program over ideals
/// finds, is no such bound: splits that are not contiguous may be below it.
///
/// All hold for every LoadSum and LoadGoal unless they say otherwise: a load is at least its compute time, and the sum
/// of the largest forward and the largest backward load is at least the largest load of both.
struct LoadBound {
  std::string name;
  Picoseconds value;

  friend bool operator==(const LoadBound&, const LoadBound&) = default;
};

/// The longest op, on the kind that runs it fastest. Proof: some device runs it.
Picoseconds load_op_bound(const LoadProblem& problem);

/// All work over all devices: the linear program
///
///     minimize T    sum over kinds k of D(k) x(c, k) = 1,  x >= 0                  each color c
///                   sum over c of time(c, k) x(c, k) <= T                          each kind k, of D(k) devices
///                   sum over c of size(c) x(c, k) <= memory(k)                     each kind that has a capacity
///
/// Proof: given a placement of value L, let x(c, k) be the share of the devices of kind k that run c; it keeps all rows
/// with T = L, as sums over the kind's devices divided by D(k). Solved by Clp where the build has it, else by the
/// simplex method here; a millionth is taken off for the solver's tolerances. Where neither ends in time, the weights
/// of load_lower_bound().
Picoseconds load_work_bound(const LoadProblem& problem);

/// The relaxation of the published integer program (place/load/load_program.hpp), communication included: as
/// load_work_bound, with
///
///     in(t, k) >= x(reader, k) - x(producer, k),  out(t, k) >= x(producer, k) - x(reader, k)    each reader of t
///     sum over c of time(c, k) x(c, k) + sum over t of cost(t, k) (in(t, k) + out(t, k)) <= T
///
/// or what `sum` makes of compute, in and out. Proof: the program for every device apart is a relaxation; its solutions
/// stay solutions when devices of one kind are permuted, and so does the mean over all permutations, as the rows are
/// convex: that is what x, in and out are here. Where all devices are alike and memory does not bind, x = 1/D moves
/// nothing, and this is load_work_bound.
Picoseconds load_relaxation_bound(const LoadProblem& problem, LoadSum sum = LoadSum::added);

/// The busiest block. With B the largest of the bounds by op, color and work,
///
///     min over kinds k, over sets S of colors with compute time(S, k) >= B and size(S) <= memory(k), of load(S, k)
///
/// Proof: B bounds what the largest compute time of any device can be, communication aside; so in every placement some
/// device of some kind runs such an S, and the value is at least load(S). An integer program for each kind that pays,
/// solved by CBC (what CBC has proven after `nodes` nodes of its tree); B without CBC, beyond a thousand columns, and
/// where devices that do not pay can run as much. After A. Archer, M. Fahrbach, K. Liu, P. Prabhu: Practical
/// performance guarantees for pipelined DNN inference, arXiv 2311.03703, whose blocks before and after the bottleneck
/// need contiguous splits.
Picoseconds load_block_bound(const LoadProblem& problem, LoadSum sum = LoadSum::added, std::int64_t nodes = 200);

/// All by name: "load-op", "load-color", "load-work", "load-relaxation", "load-block". Without `communication` the
/// first three, which hold whatever transfers cost.
std::vector<LoadBound> load_bounds(const LoadProblem& problem, const LoadOptions& options = {},
                                   bool communication = true);
/// The largest; the first of equals.
LoadBound best_load_bound(const LoadProblem& problem, const LoadOptions& options = {}, bool communication = true);

}  // namespace trainyard
