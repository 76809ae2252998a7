#include <optional>
#include <vector>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/flexflow/flexflow.hpp"
#include "trainyard/place/flexflow/placement_chain.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

using ChainStart = FlexFlowOptions::Start;

constexpr Choice kChainStart{
    "start",
    {{"both", ChainStart::both}, {"data-parallel", ChainStart::data_parallel}, {"random", ChainStart::random}},
    ChainStart::both,
    "where the walk starts: data-parallel, random, both (each with half of the budget)"};

constexpr Number<std::optional<double>> kBeta{
    "beta",
    0,
    1e9,
    std::nullopt,
    "how strongly worse states are rejected, by their cost relative to the best: 0, 10, 20, 50, 100, 200, 500, 1000, "
    "greedy (always rejected), calibrated (3 of 10 are accepted at first)",
    {{"calibrated", std::nullopt}, {"greedy", PlacementChain::kGreedy}}};

constexpr auto kSplitOps = yes_or_no("splits", true, "whether convolutions and matrix products may be split: yes, no");
constexpr auto kPropagate =
    yes_or_no("propagate", false, "whether a move may copy an op's device to its neighbours: yes, no");

}  // namespace

std::vector<Placer> detail::flexflow_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "flexflow",
       .summary = "random walk over placements and splits that rarely accepts worse ones, until the budget is used up",
       .source = "Jia et al.: Beyond data and model parallelism for deep neural networks (FlexFlow), MLSys 2019",
       .parameters = {kChainStart, kBeta, kSplitOps, kPropagate},
       .searches = true},
      [](const Problem& problem, const Parameters& given) {
        return flexflow(problem,
                        {.start = given[kChainStart],
                         .beta = given[kBeta],
                         .splits = given[kSplitOps] && given.options().rewrites,
                         .propagation = given[kPropagate]},
                        given.options());
      }));
  return list;
}

}  // namespace trainyard
