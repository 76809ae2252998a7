#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/from_problem.hpp"

namespace trainyard {

struct LoadPlacerOptions {
  LoadModelOptions model = {};
  LoadSum sum = LoadSum::added;
  LoadGoal goal = LoadGoal::together;  // of the search and the integer program
  std::uint64_t evaluations = 0;       // of the search; 0: by problem size
  std::size_t drawn_orders = 4;        // of dpl
  std::size_t most_ideals = 60'000;    // of dp-ideals
  std::uint64_t seed = 1;
  Effort effort{{}};  // once it is late, placers return their best so far or throw OutOfTime
};

/// The contiguous split of least load: ideal_split(), or place_linear() for graphs with too many ideals. Throws
/// NoPlacementError "no-split" if no contiguous split respects memory, device kinds and groups.
Schedule place_ideals(const Problem& problem, const LoadPlacerOptions& options = {});

/// The dynamic program along linear orders: dpl(). Throws NoPlacementError "no-split".
Schedule place_linear(const Problem& problem, const LoadPlacerOptions& options = {});

/// search_load(), whose placement need not be contiguous. If nothing fits in memory, it has the least excess found.
/// Throws InputError "no-device".
Schedule place_load_search(const Problem& problem, const LoadPlacerOptions& options = {});

/// solve_load_program(), started from the result of the search (contiguous: of dpl()), until it is proven optimal or
/// `nodes` nodes are solved. Beyond 3,000 columns the start is returned as it is, and InputError "too-large" is thrown
/// if there is none. Throws MissingError without CBC; NoPlacementError "no-split" if no placement is found or none
/// exists.
Schedule place_load_program(const Problem& problem, bool contiguous, std::int64_t nodes,
                            const LoadPlacerOptions& options = {});

/// greedy_fill(), a baseline for the latency of a single sample. Throws InputError "no-split".
Schedule place_greedy_fill(const Problem& problem, const LoadPlacerOptions& options = {});

/// Adds an order to a placement, for the simulation of one step: by upward ranks if that is better than first come
/// first served.
Schedule ordered_schedule(const Problem& problem, Placement placement);

}  // namespace trainyard
