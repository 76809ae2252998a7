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

LoadPlacerOptions load_options(const Parameters& given) {
  return {.model = {.memory = given.choice<LoadMemory>("memory", {"weights", "held"}),
                    .mates = given.choice<LoadMates>("mates", {"automatic", "colors", "reads"})},
          .sum = given.choice<LoadSum>("load", {"added", "overlapped", "channels"}),
          .seed = given.seed()};
}

}  // namespace

std::vector<Placer> load_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "dp-ideals",
       .summary = "the contiguous split with the least load of its busiest device: most steps a second in a pipeline",
       .source = kSource,
       .parameters = load_parameters()},
      [](const Problem& problem, const Parameters& given) { return place_ideals(problem, load_options(given)); }));
  list.push_back(make_placer(
      {.name = "dpl",
       .summary = "the same along a few linear orders: fast on any graph, nearly as good",
       .source = kSource,
       .parameters = load_parameters()},
      [](const Problem& problem, const Parameters& given) { return place_linear(problem, load_options(given)); }));
  return list;
}

}  // namespace trainyard
