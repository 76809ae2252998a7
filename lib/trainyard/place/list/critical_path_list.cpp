#include "trainyard/place/list/critical_path_list.hpp"

#include <vector>

#include "trainyard/place/kit/ranks.hpp"

namespace trainyard {

Schedule critical_path_list(const Problem& problem, const CriticalPathOptions& options) {
  const MeanCosts means{problem};
  const std::vector<OpId> order =
      by_descending_rank(problem, options.level == CriticalPathOptions::Level::bottom ? upward_ranks(problem, means)
                                                                                      : static_levels(problem, means));
  return list_in_order(problem, {.insertion = options.insertion, .order = options.order, .stop = options.stop}, order);
}

}  // namespace trainyard
