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
       .summary = "an integer program of placement and order with congestion, on a coarse graph: solved by CBC or "
                  "branch and bound where it is small, searched where it is not",
       .source = "Hafeez, Sun, Gandhi, Liu: Towards optimal placement and scheduling of DNN operations with Pesto, "
                 "Middleware 2021",
       .parameters =
           {{"ops", "700",
             "coarsened to so many ops first: 10, 15, 20, 30, 50, 100, 200, 400, 700 (as the authors' program), all"},
            {"solver", "automatic",
             "cbc, own (branch and bound up to 64 ops, a search beyond), automatic (CBC where the build has "
             "it, up to 30 ops)"}},
       .searches = true},
      [](const Problem& problem, const Parameters& given) {
        constexpr std::array<std::size_t, 10> kOps{10,  15,  20,  30,  50,
                                                   100, 200, 400, 700, std::numeric_limits<std::size_t>::max()};
        const Budget& budget = given.options().budget;
        PestoOptions options;
        options.solver = given.choice<PestoSolver>("solver", {"automatic", "cbc", "own"});
        options.seconds = budget.seconds;
        constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
        if (budget.given())
          options.nodes =
              static_cast<std::int64_t>(std::clamp<std::uint64_t>(budget.evaluations.value_or(kMost), 1, kMost));
        if (budget.evaluations) options.evaluations = *budget.evaluations;
        options.stop = given.options().stop;
        options.seed = given.seed();
        options.threads = given.options().threads;
        return pesto(problem,
                     kOps[given.choice("ops", {"10", "15", "20", "30", "50", "100", "200", "400", "700", "all"})],
                     options);
      })};
}

}  // namespace trainyard
