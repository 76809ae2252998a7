#include <cmath>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/load/load_placers.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kTarnawskiPaper =
    "Tarnawski et al.: Efficient algorithms for device placement of DNN graph operators, NeurIPS 2020";

constexpr Choice kLoadSum{
    "load",
    {{"added", LoadSum::added}, {"overlapped", LoadSum::overlapped}, {"channels", LoadSum::channels}},
    LoadSum::added,
    "how a device's compute and communication times combine: added, overlapped (the larger), channels (the largest of "
    "compute, receiving and sending)"};

constexpr Choice kLoadMemory{
    "memory",
    {{"weights", LoadMemory::weights}, {"held", LoadMemory::held}},
    LoadMemory::weights,
    "what must fit in memory: weights (parameters and optimizer state), held (also activations kept for later passes)"};

constexpr Choice kMates{
    "mates",
    {{"automatic", LoadMates::automatic}, {"colors", LoadMates::colors}, {"reads", LoadMates::reads}},
    LoadMates::automatic,
    "forward ops whose device a backward op shares: colors (those of its colocation group), reads (if there are none, "
    "the last that it reads from), automatic (reads if the graph names layers, else colors)"};

constexpr Choice kGoal{
    "goal",
    {{"together", LoadGoal::together}, {"apart", LoadGoal::apart}},
    LoadGoal::together,
    "load to minimize: together (both passes of the busiest device), apart (the busiest device of each pass, added)"};

constexpr auto kContiguous =
    yes_or_no("contiguous", false, "whether the forward ops of a device must be a convex set: yes, no");

constexpr Number<double> kProgramNodes{"effort", 0.001, 1e6, 0.1,
                                       "limit on the nodes of the search tree, in thousands: 0.1, 1, 10, 100, 1000"};

LoadModelOptions load_model(const Parameters& given) { return {.memory = given[kLoadMemory], .mates = given[kMates]}; }

LoadPlacerOptions load_options(const Parameters& given) {
  return {.model = load_model(given), .sum = given[kLoadSum], .seed = given.seed(), .effort = given.effort()};
}

LoadPlacerOptions search_options(const Parameters& given) {
  LoadPlacerOptions options = load_options(given);
  options.goal = given[kGoal];
  return options;
}

}  // namespace

std::vector<Placer> detail::load_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "dp-ideals",
       .summary = "contiguous split with the least load on the busiest device, so most steps per second in a pipeline; "
                  "as dpl for graphs that can be cut in more than 60,000 places",
       .source = kTarnawskiPaper,
       .parameters = {kLoadSum, kLoadMemory, kMates},
       .exhaustive = true},
      [](const Problem& problem, const Parameters& given) { return place_ideals(problem, load_options(given)); }));
  list.push_back(make_placer(
      {.name = "dpl",
       .summary = "as dp-ideals, but only along a few linear orders of the ops: nearly as good, and takes seconds for "
                  "thousands of layers",
       .source = kTarnawskiPaper,
       .parameters = {kLoadSum, kLoadMemory, kMates}},
      [](const Problem& problem, const Parameters& given) { return place_linear(problem, load_options(given)); }));
  list.push_back(make_placer({.name = "greedy-fill",
                              .summary = "fills the memory of one device after the other, with blocks in depth-first "
                                         "order; a baseline for the latency of one sample",
                              .source = kTarnawskiPaper,
                              .parameters = {kLoadMemory, kMates}},
                             [](const Problem& problem, const Parameters& given) {
                               return place_greedy_fill(problem, {.model = load_model(given)});
                             }));
  list.push_back(make_placer(
      {.name = "load-search",
       .summary = "search for the least load on the busiest device; the ops of a device need not be contiguous",
       .source = "own; the model is that of " + std::string{kTarnawskiPaper},
       .parameters = {kLoadSum, kLoadMemory, kMates, kGoal},
       .exhaustive = true},
      [](const Problem& problem, const Parameters& given) {
        return place_load_search(problem, search_options(given));
      }));
  list.push_back(make_placer(
      {.name = "load-program",
       .summary =
           "as load-search, then an integer program (CBC) proves the result or improves it; for up to about 100 groups",
       .source = kTarnawskiPaper,
       .parameters = {kLoadSum, kLoadMemory, kMates, kGoal, kContiguous, kProgramNodes},
       .exhaustive = true},
      [](const Problem& problem, const Parameters& given) {
        return place_load_program(problem, given[kContiguous], std::llround(1000 * given[kProgramNodes]),
                                  search_options(given));
      }));
  return list;
}

}  // namespace trainyard
