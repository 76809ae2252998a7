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

/// Multilevel search: the graph is coarsened to about 200 clusters, then to 800 (coarsen). On each level an Island goes
/// on from the placement of the level before; an evaluation costs a fraction there, and a move takes related ops along.
/// Returns the last placement under its best order (best_order), with all work in `evaluations`; nothing beyond 64
/// devices. A level is skipped if the graph cannot be merged to half of its ops.
///
/// Evaluations of the budget are of the original graph; one of a coarser graph counts as its share of the ops.
std::optional<Ordered> multilevel_search(const Problem& problem, const Placement& start, const Budget& budget,
                                         Random random, const std::function<bool()>& stop = {});

}  // namespace trainyard
