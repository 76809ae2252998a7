#include "trainyard/place/baechi/m_sct.hpp"

namespace trainyard {

Schedule m_sct(const Problem& problem, const IdMap<OpId, OpId>& favourite, const BaechiOptions& options) {
  const OpEdges edges{problem.graph()};
  return BaechiLoop{problem, edges, favourite}.schedule(options);
}

Schedule m_sct(const Problem& problem, const MSctOptions& options) {
  const OpEdges edges{problem.graph()};
  const RelaxedFavourites relaxed = relaxed_favourites(problem, edges, options.solver, 100'000, options.effort);
  return BaechiLoop{problem, edges, favourite_children(problem, edges, relaxed.x, options.threshold)}.schedule(
      options.plan);
}

}  // namespace trainyard
