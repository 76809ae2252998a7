#pragma once

#include <cstdint>
#include <functional>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

struct LoadSearchOptions {
  LoadOptions goal = {};
  std::uint64_t evaluations = 0;  // 0: by the size of the problem, 20,000 to 5 million
  std::uint64_t seed = 1;
  std::function<bool()> stop = {};  // polled throughout: end with the best so far
};

struct LoadSearchResult {
  LoadPlacement placement;
  Picoseconds value{};
  Bytes excess{};  // over the capacities; 0 if the placement fits
  std::uint64_t evaluations = 0;
};

/// Searches for a placement of least value, contiguous or not, by simulated annealing; memory comes first. The moves
/// are one color, connected colors together, and swaps. It ends with descents over all moves and swaps of the busiest
/// device, with small random changes between them. The starts are the best split along linear orders, and colors dealt
/// out by descending time. Each round starts from the best so far or from one of these. The result is determined by the
/// seed and the number of evaluations. Throws InputError "no-device" if a color cannot run on any device.
LoadSearchResult search_load(const LoadProblem& problem, const LoadSearchOptions& options = {});

/// search_load() from a warm start. The result is never worse than the start.
LoadSearchResult improve_load(const LoadProblem& problem, const LoadPlacement& from, const LoadSearchOptions& options);

}  // namespace trainyard
