#include <algorithm>
#include <cstdint>
#include <utility>

#include "trainyard/place/exact/exact.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {

std::vector<Placer> exact_placers() {
  return {make_placer({.name = "exact",
                       .summary = "branch and bound over placement and order, from the best of the quick placers",
                       .source = "own; Carlier 1982, Giffler and Thompson 1960",
                       .parameters = {{"effort", "normal",
                                       "how many nodes to search: quick, normal (a million divided by the number of "
                                       "ops), long (a hundred times as many)"}}},
                      [](const Problem& problem, const Parameters& parameters) {
                        constexpr std::uint64_t kWork[] = {100'000, 1'000'000, 100'000'000};
                        const std::uint64_t work = kWork[parameters.choice("effort", {"quick", "normal", "long"})];
                        const std::uint64_t ops = std::max<std::uint64_t>(problem.op_count(), 1);
                        BranchAndBoundResult result =
                            exact_schedule(problem, std::max<std::uint64_t>(work / ops, 1), parameters.options().stop);
                        result.schedule->search = {.evaluations = result.nodes, .lower_bound = result.bound};
                        return std::move(*result.schedule);
                      })};
}

}  // namespace trainyard
