#include <string>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parameters.hpp"
#include "trainyard/place/talos/talos.hpp"

namespace trainyard {
namespace {

constexpr auto kTalosPaper = "Talos: a weighted speedup-aware device placement of deep learning models";

constexpr Number<double> kSpread{
    "sv", 1, 1000, 2, "by which factor speedups within a pack may differ from its first op's: 1, 1.43, 2, 3.33, 10"};

constexpr Number<std::uint64_t> kPackTime{"tv", 0, 1'000'000, 10,
                                          "milliseconds that a pack takes at most: 0 (no packs), 1, 5, 10, 20"};

constexpr Choice kTimeOfOp{"tv-of", {{"pack", false}, {"op", true}}, false, "what tv is of: pack, op"};

using Cost = TalosOptions::Cost;
constexpr Choice kCost{"cost",
                       {{"added", Cost::added}, {"literal", Cost::literal}},
                       Cost::added,
                       "added (waiting, transfer and op time), literal (the paper's, less what runs beside it)"};

using Together = TalosOptions::Together;
constexpr Choice kTogether{"together",
                           {{"all", Together::all}, {"pairs", Together::pairs}},
                           Together::all,
                           "all models at once, or pairs of high affinity one after the other: all, pairs"};

TalosOptions talos_options(const Parameters& given) {
  const double spread = given[kSpread];
  const std::uint64_t milliseconds = given[kPackTime];
  return {.cost = given[kCost],
          .packs = {.low = 1 / spread,
                    .high = spread,
                    .most = Nanoseconds{static_cast<std::int64_t>(milliseconds) * 1'000'000},
                    .each = given[kTimeOfOp]},
          .packing = milliseconds > 0,
          .together = given[kTogether],
          .stop = given.stop()};
}

}  // namespace

std::vector<Placer> detail::talos_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "talos",
       .summary = "packs of ops to devices by min-cost flows: several models at once, each done soon",
       .source = kTalosPaper,
       .parameters = {kSpread, kPackTime, kTimeOfOp, kCost, kTogether}},
      [](const Problem& problem, const Parameters& given) { return talos(problem, talos_options(given)); }));
  list.push_back(make_placer(
      {.name = "aswm",
       .summary = "each model as a whole on one device, those that gain most on the fastest",
       .source = "the first baseline of " + std::string{kTalosPaper}},
      [](const Problem& problem, const Parameters& given) { return place_whole_models(problem, given.stop()); }));
  list.push_back(make_placer(
      {.name = "tsam",
       .summary = "first come, first served: an op takes whatever device is idle",
       .source = "the second baseline of " + std::string{kTalosPaper}},
      [](const Problem& problem, const Parameters& given) { return place_first_come(problem, given.stop()); }));
  return list;
}

}  // namespace trainyard
