#include <string>
#include <vector>

#include "trainyard/place/flexflow/flexflow.hpp"
#include "trainyard/place/flexflow/placement_chain.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

const std::vector<std::string> kBetas{"calibrated", "0", "10", "20", "50", "100", "200", "500", "1000", "greedy"};

std::optional<double> beta_of(const Parameters& given) {
  const std::size_t choice = given.choice("beta", kBetas);
  if (choice == 0) return std::nullopt;
  return choice + 1 == kBetas.size() ? PlacementChain::kGreedy : std::stod(kBetas[choice]);
}

}  // namespace

std::vector<Placer> flexflow_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "flexflow",
       .summary = "a random walk over placements and splits, rarely to worse ones, until the budget is used up",
       .source = "Jia et al.: Beyond data and model parallelism for deep neural networks (FlexFlow), MLSys 2019",
       .parameters = {{"start", "both", "data-parallel, random, both (each with half of the budget)"},
                      {"beta", "calibrated",
                       "how little worse ones are liked, by their cost relative to the best: 0, 10, 20, 50, 100, 200, "
                       "500, 1000, greedy (never taken), calibrated (3 of 10 are taken at first)"},
                      {"splits", "yes", "whether convolutions and products are split: yes, no"},
                      {"propagate", "no", "whether an op's device may spread to its neighbours: yes, no"}},
       .searches = true},
      [](const Problem& problem, const Parameters& given) {
        return flexflow(problem,
                        {.start = given.choice<FlexFlowOptions::Start>("start", {"both", "data-parallel", "random"}),
                         .beta = beta_of(given),
                         .splits = given.yes("splits") && given.options().splits,
                         .propagation = given.yes("propagate")},
                        given.options());
      }));
  return list;
}

}  // namespace trainyard
