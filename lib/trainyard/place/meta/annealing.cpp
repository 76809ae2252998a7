#include "trainyard/place/meta/annealing.hpp"

#include <algorithm>
#include <cstdint>

#include "trainyard/core/portable_math.hpp"
#include "trainyard/place/flexflow/placement_chain.hpp"

namespace trainyard {

Schedule annealing(const Problem& problem, const AnnealingOptions& options, const PlaceOptions& run) {
  constexpr std::uint64_t kSample = 100;
  constexpr double kSteps = 100;
  const PlacementSearch search{problem, options.search, run};
  if (search.over(0)) return search.finish(search.start().placement, search.start_outcome(), 0);
  PlacementChain chain{problem, search.start(), Random::stream(run.seed, 0)};
  if (chain.is_fixed()) return search.finish(chain.best(), chain.best_outcome(), 0);
  chain.fix_scale(search.start_outcome().makespan);
  const double first = chain.calibrated_beta(
      std::min(kSample, search.left(0) / 10), [&search] { return search.late(); }, options.taken);
  const double heating = -portable_log(options.cooling);
  for (double step = 0; !search.over(chain.evaluations()); ++step) {
    // The inverse temperature beta = 1 / T rises as T falls; kGreedy stays.
    chain.set_beta(first == PlacementChain::kGreedy ? first : first * portable_exp(heating * step / kSteps));
    while (!search.over(chain.evaluations()) && search.share(chain.evaluations()) < (step + 1) / kSteps) chain.step();
    search.report(chain.best_outcome(), chain.evaluations());
  }
  return search.finish(chain.best(), chain.best_outcome(), chain.evaluations());
}

}  // namespace trainyard
