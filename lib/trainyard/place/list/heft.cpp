#include "trainyard/place/list/heft.hpp"

#include "trainyard/place/kit/ranks.hpp"

namespace trainyard {

Schedule heft(const Problem& problem, const ListOptions& options) {
  return list_in_order(problem, options, by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem})));
}

}  // namespace trainyard
