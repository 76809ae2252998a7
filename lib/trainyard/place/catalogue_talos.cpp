#include <string>
#include <vector>

#include "trainyard/place/parameters.hpp"
#include "trainyard/place/talos/talos.hpp"

namespace trainyard {
namespace {

constexpr auto kSource = "Talos: a weighted speedup-aware device placement of deep learning models";

const std::vector<std::string> kSpreads{"1", "1.43", "2", "3.33", "10"};
const std::vector<std::string> kTimes{"0", "1", "5", "10", "20"};

std::vector<PlacerParameter> talos_parameters() {
  return {{"sv", "2", "by which factor speedups within a pack may differ from its first op's: 1, 1.43, 2, 3.33, 10"},
          {"tv", "10", "milliseconds that a pack takes at most: 0 (no packs), 1, 5, 10, 20"},
          {"tv-of", "pack", "what tv is of: pack, op"},
          {"cost", "added", "added (waiting, transfer and op time), literal (the paper's, less what runs beside it)"},
          {"together", "all", "all models at once, or pairs of high affinity one after the other: all, pairs"}};
}

TalosOptions talos_options(const Parameters& given) {
  const double spread = std::stod(kSpreads[given.choice("sv", kSpreads)]);
  const std::size_t time = given.choice("tv", kTimes);
  return {.cost = given.choice<TalosOptions::Cost>("cost", {"added", "literal"}),
          .packs = {.low = 1 / spread,
                    .high = spread,
                    .most = Nanoseconds{std::stoll(kTimes[time]) * 1'000'000},
                    .each = given.choice("tv-of", {"pack", "op"}) == 1},
          .packing = time > 0,
          .together = given.choice<TalosOptions::Together>("together", {"all", "pairs"})};
}

}  // namespace

std::vector<Placer> talos_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "talos",
       .summary = "packs of ops to devices by min-cost flows: several models at once, each done soon",
       .source = kSource,
       .parameters = talos_parameters()},
      [](const Problem& problem, const Parameters& given) { return talos(problem, talos_options(given)); }));
  list.push_back(make_placer({.name = "aswm",
                              .summary = "each model as a whole on one device, those that gain most on the fastest",
                              .source = "the first baseline of " + std::string{kSource}},
                             [](const Problem& problem, const Parameters&) { return place_whole_models(problem); }));
  list.push_back(make_placer({.name = "tsam",
                              .summary = "first come, first served: an op takes whatever device is idle",
                              .source = "the second baseline of " + std::string{kSource}},
                             [](const Problem& problem, const Parameters&) { return place_first_come(problem); }));
  return list;
}

}  // namespace trainyard
