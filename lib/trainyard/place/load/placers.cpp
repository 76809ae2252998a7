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
    "a device's compute and communication: added, overlapped (the larger), channels (the larger, one channel each "
    "way)"};

constexpr Choice kLoadMemory{
    "memory",
    {{"weights", LoadMemory::weights}, {"held", LoadMemory::held}},
    LoadMemory::weights,
    "what must fit: weights (parameters and optimizer state), held (and activations kept for later passes)"};

constexpr Choice kMates{
    "mates",
    {{"automatic", LoadMates::automatic}, {"colors", LoadMates::colors}, {"reads", LoadMates::reads}},
    LoadMates::automatic,
    "what backward ops follow: colors (the forward ops of their group), reads (also the last forward op that they read "
    "from), automatic (reads where the graph names layers)"};

constexpr Choice kGoal{"goal",
                       {{"together", LoadGoal::together}, {"apart", LoadGoal::apart}},
                       LoadGoal::together,
                       "both passes of a device together, or the busiest device of each pass apart"};

constexpr auto kContiguous =
    yes_or_no("contiguous", false, "whether the forward ops of a device must be a convex set: yes, no");

constexpr Number<double> kProgramNodes{"effort", 0.001, 1e6, 0.1,
                                       "thousands of nodes of the search tree: 0.1, 1, 10, 100, 1000"};

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
       .summary = "the contiguous split with the least load of its busiest device: most steps a second in a pipeline; "
                  "graphs that can be cut in more than 60,000 places as dpl",
       .source = kTarnawskiPaper,
       .parameters = {kLoadSum, kLoadMemory, kMates},
       .exhaustive = true},
      [](const Problem& problem, const Parameters& given) { return place_ideals(problem, load_options(given)); }));
  list.push_back(make_placer(
      {.name = "dpl",
       .summary = "the same along a few linear orders: seconds up to some thousand layers, nearly as good",
       .source = kTarnawskiPaper,
       .parameters = {kLoadSum, kLoadMemory, kMates}},
      [](const Problem& problem, const Parameters& given) { return place_linear(problem, load_options(given)); }));
  list.push_back(make_placer(
      {.name = "greedy-fill",
       .summary = "blocks in depth-first order fill the memory of one device after the other: for one sample's latency",
       .source = kTarnawskiPaper,
       .parameters = {kLoadMemory, kMates}},
      [](const Problem& problem, const Parameters& given) {
        return place_greedy_fill(problem, {.model = load_model(given)});
      }));
  list.push_back(make_placer(
      {.name = "load-search",
       .summary = "the least largest load that a search finds, whether a device's ops are contiguous or not",
       .source = "own; the model is that of " + std::string{kTarnawskiPaper},
       .parameters = {kLoadSum, kLoadMemory, kMates, kGoal},
       .exhaustive = true},
      [](const Problem& problem, const Parameters& given) {
        return place_load_search(problem, search_options(given));
      }));
  list.push_back(make_placer(
      {.name = "load-program",
       .summary = "the same, then an integer program (CBC) that proves it or finds better, up to about 100 groups",
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
