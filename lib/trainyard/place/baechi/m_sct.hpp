#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/baechi/m_event_loop.hpp"
#include "trainyard/place/baechi/m_favourites.hpp"

namespace trainyard {

struct MSctOptions {
  BaechiOptions plan = {};
  LinearSolver solver = LinearSolver::best;
  /// An edge with x below this makes a favourite child. The paper rounds at one half; the authors' program has a flag,
  /// 0.1.
  double threshold = 0.5;
  Effort effort{{}};  // half of its seconds are for the linear program, which then returns its best so far
};

/// Memory-constrained small communication times: m-ETF, except that a device may wait for the favourite child of its
/// last op, whose input then need not be sent. Favourite children come from a linear program (see m_favourites.hpp),
/// rounded; m_event_loop.hpp says how devices wait.
///
/// Hanen and Munier prove that the plan, without memory limits and on m devices, takes at most 1 + (1 - 1/m) 2 (1 + r)
/// / (2 + r) times the optimum, where r = longest transfer / shortest op <= 1. Training graphs seldom have r <= 1, so
/// it is a heuristic here.
///
/// C. Hanen, A. Munier: An approximation algorithm for scheduling dependent tasks on m processors with small
/// communication delays. INRIA/IEEE ETFA 1995. With memory: B. Jeon et al.: Baechi. ACM SoCC 2020.
Schedule m_sct(const Problem& problem, const MSctOptions& options = {});

/// m_sct() with given favourite children, none for an op without one.
Schedule m_sct(const Problem& problem, const IdMap<OpId, OpId>& favourite, const BaechiOptions& options);

}  // namespace trainyard
