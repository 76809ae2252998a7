#include <algorithm>
#include <cstdint>
#include <utility>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/exact/exact.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr Choice<std::uint64_t, 3> kWork{"effort",
                                         {{"quick", 100'000}, {"normal", 1'000'000}, {"long", 100'000'000}},
                                         1'000'000,
                                         "number of nodes to search: quick (a tenth of normal), normal (a million "
                                         "divided by the number of ops), long (a hundred times normal)"};

}  // namespace

std::vector<Placer> detail::exact_placers() {
  return {make_placer({.name = "exact",
                       .summary = "branch and bound over placement and order, from the best of the quick placers",
                       .source = "own; Carlier 1982, Giffler and Thompson 1960",
                       .parameters = {kWork}},
                      [](const Problem& problem, const Parameters& given) {
                        const std::uint64_t ops = std::max<std::uint64_t>(problem.op_count(), 1);
                        BranchAndBoundResult result =
                            exact_schedule(problem, std::max<std::uint64_t>(given[kWork] / ops, 1), given.stop());
                        result.schedule->search = {.evaluations = result.nodes, .lower_bound = result.bound};
                        return std::move(*result.schedule);
                      })};
}

}  // namespace trainyard
