#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parameters.hpp"
#include "trainyard/place/simple/expert.hpp"
#include "trainyard/place/simple/simple.hpp"

namespace trainyard {

std::vector<Placer> detail::simple_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "single", .summary = "all ops on one device: the fastest one with enough memory", .source = "own"},
      [](const Problem& problem, const Parameters&) { return place_single(problem); }));
  list.push_back(make_placer(
      {.name = "round-robin", .summary = "ops dealt to the devices in turn, in topological order", .source = "own"},
      [](const Problem& problem, const Parameters&) { return place_round_robin(problem); }));
  list.push_back(
      make_placer({.name = "random", .summary = "each op on a random device, drawn with the seed", .source = "own"},
                  [](const Problem& problem, const Parameters& given) { return place_random(problem, given.seed()); }));
  list.push_back(
      make_placer({.name = "expert",
                   .summary = "as a person would place by layer names: LSTM layers or branches on different devices, "
                              "else contiguous layers of equal time",
                   .source = "the hand-made baselines of Mirhoseini et al., ICML 2017, and Placeto, NeurIPS 2019"},
                  [](const Problem& problem, const Parameters&) { return place_expert(problem); }));
  return list;
}

}  // namespace trainyard
