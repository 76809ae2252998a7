#include "trainyard/place/load/load_placers.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kSource =
    "Tarnawski et al.: Efficient algorithms for device placement of DNN graph operators, NeurIPS 2020";

std::vector<PlacerParameter> load_parameters() {
  return {{"load", "added",
           "a device's compute and communication: added, overlapped (the larger), channels (the larger, one channel "
           "each way)"},
          {"memory", "weights",
           "what must fit: weights (parameters and optimizer state), held (and activations kept for later passes)"},
          {"mates", "automatic",
           "what backward ops follow: colors (the forward ops of their group), reads (also the last forward op that "
           "they read from), automatic (reads where the graph names layers)"}};
}

LoadModelOptions load_model(const Parameters& given) {
  return {.memory = given.choice<LoadMemory>("memory", {"weights", "held"}),
          .mates = given.choice<LoadMates>("mates", {"automatic", "colors", "reads"})};
}

LoadPlacerOptions load_options(const Parameters& given) {
  return {.model = load_model(given),
          .sum = given.choice<LoadSum>("load", {"added", "overlapped", "channels"}),
          .seed = given.seed()};
}

LoadPlacerOptions search_options(const Parameters& given) {
  LoadPlacerOptions options = load_options(given);
  options.goal = given.choice<LoadGoal>("goal", {"together", "apart"});
  return options;
}

}  // namespace

std::vector<Placer> load_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "dp-ideals",
       .summary = "the contiguous split with the least load of its busiest device: most steps a second in a pipeline",
       .source = kSource,
       .parameters = load_parameters(),
       .exhaustive = true},
      [](const Problem& problem, const Parameters& given) { return place_ideals(problem, load_options(given)); }));
  list.push_back(make_placer(
      {.name = "dpl",
       .summary = "the same along a few linear orders: fast on any graph, nearly as good",
       .source = kSource,
       .parameters = load_parameters()},
      [](const Problem& problem, const Parameters& given) { return place_linear(problem, load_options(given)); }));
  list.push_back(make_placer(
      {.name = "greedy-fill",
       .summary = "blocks in depth-first order fill the memory of one device after the other: for one sample's latency",
       .source = kSource,
       .parameters = {load_parameters()[1], load_parameters()[2]}},
      [](const Problem& problem, const Parameters& given) {
        return place_greedy_fill(problem, {.model = load_model(given)});
      }));
  std::vector<PlacerParameter> search = load_parameters();
  search.push_back({"goal", "together", "both passes of a device together, or the busiest device of each pass apart"});
  list.push_back(make_placer(
      {.name = "load-search",
       .summary = "the least largest load that a search finds, whether a device's ops are contiguous or not",
       .source = "own; the model is that of " + std::string{kSource},
       .parameters = search,
       .exhaustive = true},
      [](const Problem& problem, const Parameters& given) {
        return place_load_search(problem, search_options(given));
      }));
  search.push_back({"contiguous", "no", "whether the forward ops of a device must be a convex set: yes, no"});
  search.push_back({"effort", "0.1", "thousands of nodes of the search tree: 0.1, 1, 10, 100, 1000"});
  list.push_back(make_placer(
      {.name = "load-program",
       .summary = "the same, then an integer program (CBC) that proves it or finds better: for up to about 100 groups",
       .source = kSource,
       .parameters = search,
       .exhaustive = true},
      [](const Problem& problem, const Parameters& given) {
        const std::int64_t nodes[] = {100, 1'000, 10'000, 100'000, 1'000'000};
        return place_load_program(problem, given.yes("contiguous"),
                                  nodes[given.choice("effort", {"0.1", "1", "10", "100", "1000"})],
                                  search_options(given));
      }));
  return list;
}

}  // namespace trainyard
