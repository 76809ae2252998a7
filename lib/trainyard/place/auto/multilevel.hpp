#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/core/random.hpp"
#include "trainyard/place/orders.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Graphs with more ops than this are searched on coarser graphs first.
inline constexpr std::size_t kMultilevelOps = 2'000;

struct MultilevelOptions {
  std::uint64_t evaluations = 0;  // of the graph itself; one of a coarser graph counts as the share that it is
  std::optional<std::chrono::steady_clock::duration> time = {};
  std::function<bool()> stop = {};
};

/// Multilevel search: the graph is merged to about 200 clusters, then to 800 (coarsen); on each the search of an Island
/// goes on from the placement that the one before it has found, where one evaluation costs a fraction and one move
/// takes along what belongs together. The placement that comes out, under its best order (best_order); `evaluations` of
/// it counts all that was done. Nothing where the graph cannot be merged so far.
std::optional<Ordered> multilevel_search(const Problem& problem, const Placement& start,
                                         const MultilevelOptions& options, Random random);

}  // namespace trainyard
