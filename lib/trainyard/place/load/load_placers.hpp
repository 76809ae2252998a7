#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/core/error.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/load/split.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/throughput/from_problem.hpp"

namespace trainyard {

struct LoadPlacerOptions {
  LoadModelOptions model = {};
  LoadSum sum = LoadSum::added;
  LoadGoal goal = LoadGoal::together;  // of the search and the integer program
  std::uint64_t evaluations = 0;       // of the search; 0: its own number
  std::size_t drawn_orders = 4;        // of dpl
  std::size_t most_ideals = 60'000;    // of dp-ideals
  std::uint64_t seed = 1;
  Effort effort{{}};  // when it is late, all end with the best so far, or throw OutOfTime
};

/// The contiguous split of least load: ideal_split(); of graphs with too many ideals place_linear(). Throws
/// NoPlacementError "no-split" where none keeps memory, device kinds and groups.
Schedule place_ideals(const Problem& problem, const LoadPlacerOptions& options = {});

/// The dynamic program along linear orders: dpl(). Throws NoPlacementError "no-split".
Schedule place_linear(const Problem& problem, const LoadPlacerOptions& options = {});

/// Contiguous or not: search_load(). Where nothing fits, what is beyond the memory least. Throws InputError
/// "no-device".
Schedule place_load_search(const Problem& problem, const LoadPlacerOptions& options = {});

/// The integer program, from the search's result on: solve_load_program(), until it is proven or `nodes` of its tree
/// are done; beyond 3,000 columns the search's result (contiguous: dpl()'s) as it is. Throws MissingError without CBC;
/// NoPlacementError "no-split" where it finds no placement, or proves that there is none.
Schedule place_load_program(const Problem& problem, bool contiguous, std::int64_t nodes,
                            const LoadPlacerOptions& options = {});

/// greedy_fill(): for the latency of a single sample. Throws InputError "no-split".
Schedule place_greedy_fill(const Problem& problem, const LoadPlacerOptions& options = {});

/// Gives a placement the order with which one step is simulated: first come first served or by upward ranks, whichever
/// is better; ties go to the former.
Schedule ordered_schedule(const Problem& problem, Placement placement);

}  // namespace trainyard
