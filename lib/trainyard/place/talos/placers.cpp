#include <string>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parameters.hpp"
#include "trainyard/place/talos/talos.hpp"

namespace trainyard {
namespace {

constexpr auto kTalosPaper = "Talos: a weighted speedup-aware device placement of deep learning models";

constexpr Number<double> kSpread{
    "sv", 1, 1000, 2,
    "factor by which speedups within a pack may differ from that of its first op: 1, 1.43, 2, 3.33, 10"};

constexpr Number<std::uint64_t> kPackTime{"tv", 0, 1'000'000, 10,
                                          "longest time of a pack in milliseconds: 0 (no packs), 1, 5, 10, 20"};

constexpr Choice kTimeOfOp{
    "tv-of", {{"pack", false}, {"op", true}}, false, "what tv limits: pack (the whole pack), op (each op)"};

using Cost = TalosOptions::Cost;
constexpr Choice kCost{"cost",
                       {{"added", Cost::added}, {"literal", Cost::literal}},
                       Cost::added,
                       "cost of a pack on a device: added (waiting, transfer and op time), literal (as in the paper: "
                       "minus the longest of the model's other ready packs)"};

using Together = TalosOptions::Together;
constexpr Choice kTogether{"together",
                           {{"all", Together::all}, {"pairs", Together::pairs}},
                           Together::all,
                           "models that run at the same time: all, pairs (of high affinity, one pair after the other)"};

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
       .summary = "for several models at once: assigns packs of ops to devices by minimum-cost flows, so that each "
                  "model finishes soon",
       .source = kTalosPaper,
       .parameters = {kSpread, kPackTime, kTimeOfOp, kCost, kTogether}},
      [](const Problem& problem, const Parameters& given) { return talos(problem, talos_options(given)); }));
  list.push_back(make_placer(
      {.name = "aswm",
       .summary = "each model as a whole on one device; models with the highest speedups on the fastest devices",
       .source = "the first baseline of " + std::string{kTalosPaper}},
      [](const Problem& problem, const Parameters& given) { return place_whole_models(problem, given.stop()); }));
  list.push_back(make_placer(
      {.name = "tsam",
       .summary = "first come, first served: each ready op runs on any idle device",
       .source = "the second baseline of " + std::string{kTalosPaper}},
      [](const Problem& problem, const Parameters& given) { return place_first_come(problem, given.stop()); }));
  return list;
}

}  // namespace trainyard
