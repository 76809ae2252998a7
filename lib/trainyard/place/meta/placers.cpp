#include <vector>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/meta/annealing.hpp"
#include "trainyard/place/meta/genetic.hpp"
#include "trainyard/place/meta/tabu.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

using SearchStart = PlacementSearchOptions::Start;
using SearchOrder = PlacementSearchOptions::Order;

constexpr Choice kSearchStart{"start",
                              {{"list", SearchStart::list}, {"random", SearchStart::random}},
                              SearchStart::list,
                              "where the search starts: list (the best of heft, etf by finish and single), random"};
constexpr Choice kSearchOrder{"order",
                              {{"fifo", SearchOrder::fifo}, {"rank", SearchOrder::rank}, {"best", SearchOrder::best}},
                              SearchOrder::best,
                              "order of ops under which placements are evaluated: fifo, rank (priorities by upward "
                              "rank), best (the better of the two for the start)"};

constexpr Number<double> kTaken{"taken", 1e-6, 0.999, 0.1, "share of the worse proposals that are accepted at first"};
constexpr Number<double> kCooling{"cooling", 1e-9, 1.0, 0.01, "last temperature divided by the first"};

constexpr Number<std::uint64_t> kTabuCandidates{"candidates", 1, 1'000'000, 16, "moves evaluated before one is made"};
constexpr Number<std::uint64_t> kTenure{
    "tenure", 0, 1'000'000, 10, "number of moves during which a group may not return to the device that it left"};

constexpr Number<std::uint64_t> kPopulation{"population", 2, 100'000, 32, "placements in a generation"};
constexpr Number<std::uint64_t> kElite{"elite", 1, 100'000, 2,
                                       "best placements of a generation that survive into the next"};
constexpr Number<std::uint64_t> kTournament{"tournament", 1, 1'000, 3,
                                            "number of placements drawn at random, of which the best becomes a parent"};
constexpr Number<double> kMutation{"mutation", 0, 1e6, 1,
                                   "mean number of groups of a child that get a new random device"};

PlacementSearchOptions placement_options(const Parameters& given) {
  return {.start = given[kSearchStart], .order = given[kSearchOrder]};
}

}  // namespace

std::vector<Placer> detail::meta_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "annealing",
       .summary =
           "simulated annealing over placements, starting from a list schedule; cools geometrically over the budget",
       .source = "Kirkpatrick, Gelatt, Vecchi: Science 220, 1983",
       .parameters = {kTaken, kCooling, kSearchStart, kSearchOrder},
       .searches = true},
      [](const Problem& problem, const Parameters& given) {
        return annealing(problem,
                         {.search = placement_options(given), .taken = given[kTaken], .cooling = given[kCooling]},
                         given.options());
      }));
  list.push_back(make_placer(
      {.name = "tabu",
       .summary = "tabu search over placements, starting from a list schedule: makes the best of some moves and does "
                  "not undo it for a while",
       .source = "Glover: ORSA Journal on Computing 1(3), 1989",
       .parameters = {kTabuCandidates, kTenure, kSearchStart, kSearchOrder},
       .searches = true},
      [](const Problem& problem, const Parameters& given) {
        return tabu_search(
            problem,
            {.search = placement_options(given), .candidates = given[kTabuCandidates], .tenure = given[kTenure]},
            given.options());
      }));
  list.push_back(make_placer(
      {.name = "genetic",
       .summary = "genetic search over placements, starting from a list schedule: tournaments, uniform crossover, "
                  "mutation, elite",
       .source = "Wang, Siegel, Roychowdhury, Maciejewski: JPDC 47(1), 1997; Omara, Arafa: JPDC 70(1), 2010",
       .parameters = {kPopulation, kElite, kTournament, kMutation, kSearchStart, kSearchOrder},
       .searches = true},
      [](const Problem& problem, const Parameters& given) {
        return genetic(problem,
                       {.search = placement_options(given),
                        .population = given[kPopulation],
                        .elite = given[kElite],
                        .tournament = given[kTournament],
                        .mutation = given[kMutation]},
                       given.options());
      }));
  return list;
}

}  // namespace trainyard
