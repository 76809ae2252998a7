#include <utility>

#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr Number<std::uint64_t> kIslandCount{
    "islands", 2, 1024, kIslands, "largest number of parallel searches, each with its share of the evaluations"};

}  // namespace

std::vector<Placer> detail::auto_placers(std::vector<Placer> members) {
  return {make_placer(
      {.name = "auto",
       .summary =
           "best result of nearly all placers that do not search, improved by search until the budget is used up",
       .source = "own",
       .parameters = {kIslandCount},
       .searches = true,
       .teams = true},
      [members = std::move(members)](const Problem& problem, const Parameters& given) {
        return auto_place(problem, members, given.options(), given[kIslandCount]);
      })};
}

}  // namespace trainyard
