#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

struct LoadSearchOptions {
  LoadOptions goal = {};
  std::uint64_t evaluations = 0;  // 0: by the size of the problem, 20 thousand to 5 million
  std::uint64_t seed = 1;
  std::function<bool()> stop = {};  // asked all the time: end with the best so far
};

struct LoadSearchResult {
  LoadPlacement placement;
  Picoseconds value{};
  Bytes excess{};  // beyond the capacities: 0 unless nothing was found that fits
  std::uint64_t evaluations = 0;
};

/// A placement of least value, its devices' sets contiguous or not: simulated annealing over moves of colors, of
/// neighbours together, and swaps, with memory first; in the end descents over all moves and swaps of the busiest
/// device, with small random changes between them. It starts from the
/// best split along linear orders, and from colors dealt out by descending time; each round starts from the best so
/// far or from one of these. The same for the same seed and number of evaluations. Throws InputError ("no-device")
/// where a color cannot run anywhere.
LoadSearchResult search_load(const LoadProblem& problem, const LoadSearchOptions& options = {});

/// search_load() from a warm start; never worse than it.
LoadSearchResult improve_load(const LoadProblem& problem, const LoadPlacement& from, const LoadSearchOptions& options);

}  // namespace trainyard
