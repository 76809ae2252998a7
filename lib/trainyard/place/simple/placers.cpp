#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parameters.hpp"
#include "trainyard/place/simple/expert.hpp"
#include "trainyard/place/simple/simple.hpp"

namespace trainyard {

std::vector<Placer> detail::simple_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer({.name = "single",
                              .summary = "everything on the one device that does it soonest and has the memory",
                              .source = "own"},
                             [](const Problem& problem, const Parameters&) { return place_single(problem); }));
  list.push_back(make_placer(
      {.name = "round-robin", .summary = "ops dealt to the devices in turn, in topological order", .source = "own"},
      [](const Problem& problem, const Parameters&) { return place_round_robin(problem); }));
  list.push_back(
      make_placer({.name = "random", .summary = "each op on a device drawn by the seed", .source = "own"},
                  [](const Problem& problem, const Parameters& given) { return place_random(problem, given.seed()); }));
  list.push_back(make_placer(
      {.name = "expert",
       .summary = "by hand from the layers' names: LSTM layers apart, branches apart, or contiguous layers of equal "
                  "time",
       .source = "the hand-made baselines of Mirhoseini et al., ICML 2017, and Placeto, NeurIPS 2019"},
      [](const Problem& problem, const Parameters&) { return place_expert(problem); }));
  return list;
}

}  // namespace trainyard
