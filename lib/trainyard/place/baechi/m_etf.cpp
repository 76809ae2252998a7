#include "trainyard/place/baechi/m_etf.hpp"

namespace trainyard {

Schedule m_etf(const Problem& problem, const BaechiOptions& options) {
  const OpEdges edges{problem.graph()};
  return BaechiLoop{problem, edges, {}}.schedule(options);
}

}  // namespace trainyard
