#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "trainyard/place/parameters.hpp"
#include "trainyard/place/pesto/pesto.hpp"

namespace trainyard {

std::vector<Placer> pesto_placers() {
  return {make_placer(
      {.name = "pesto",
       .summary = "an integer program of placement and order with congestion, on a coarse graph: solved by CBC, or by "
                  "branch and bound of our own where the build has no CBC",
       .source = "Hafeez, Sun, Gandhi, Liu: Towards optimal placement and scheduling of DNN operations with Pesto, "
                 "Middleware 2021",
       .parameters = {{"ops", "15", "coarsened to so many ops first: 10, 15, 20, 30, 50, 100, 200, all"},
                      {"solver", "automatic", "cbc, own (branch and bound), automatic (CBC where the build has it)"}},
       .searches = true},
      [](const Problem& problem, const Parameters& given) {
        constexpr std::array<std::size_t, 8> kOps{10, 15,  20,  30,
                                                  50, 100, 200, std::numeric_limits<std::size_t>::max()};
        const Budget& budget = given.options().budget;
        PestoOptions options;
        options.solver = given.choice<PestoSolver>("solver", {"automatic", "cbc", "own"});
        options.seconds = budget.seconds;
        constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
        if (budget.given())
          options.nodes =
              static_cast<std::int64_t>(std::clamp<std::uint64_t>(budget.evaluations.value_or(kMost), 1, kMost));
        options.stop = given.options().stop;
        return pesto(problem, kOps[given.choice("ops", {"10", "15", "20", "30", "50", "100", "200", "all"})], options);
      })};
}

}  // namespace trainyard
