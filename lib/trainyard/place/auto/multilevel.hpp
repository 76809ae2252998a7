#pragma once

#include <functional>
#include <optional>

#include "trainyard/core/random.hpp"
#include "trainyard/place/judge/orders.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Graphs with more ops than this are searched on coarser graphs first.
inline constexpr std::size_t kMultilevelOps = 2'000;

/// Multilevel search: the graph is merged to about 200 clusters, then to 800 (coarsen); on each the search of an Island
/// goes on from the placement that the one before it has found, where one evaluation costs a fraction and one move
/// takes along what belongs together. The placement that comes out, under its best order (best_order); `evaluations` of
/// it counts all that was done. Nothing where the graph cannot be merged so far.
/// Evaluations of the budget are of the graph itself: one of a coarser graph counts as the share of its ops.
std::optional<Ordered> multilevel_search(const Problem& problem, const Placement& start, const Budget& budget,
                                         Random random, const std::function<bool()>& stop = {});

}  // namespace trainyard
