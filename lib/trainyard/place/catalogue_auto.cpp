#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {

std::vector<Placer> auto_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "auto",
       .summary = "the best of all placers here that do not search, improved by search until the budget is used up",
       .source = "own",
       .searches = true},
      [](const Problem& problem, const Parameters& given) { return auto_place(problem, given.options()); }));
  return list;
}

}  // namespace trainyard
