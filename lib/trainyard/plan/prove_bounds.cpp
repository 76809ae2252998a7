#include "trainyard/plan/prove_bounds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainyard/core/parallel.hpp"
#include "trainyard/core/sort_by.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kProofsAtOnce = 64;  // candidates between two checks of the time limit
/// Total ScheduleBound::work after which no proof begins; about this many nanoseconds of one core.
constexpr std::uint64_t kProofs = 15'000'000'000;
/// Rounds of schedule_bound(). kGlance excludes most candidates; around kWhole it finds no more paths.
constexpr std::size_t kGlance = 40, kWhole = 150;

}  // namespace

void prove_bounds(const std::vector<PlanCandidate*>& candidates, Nanoseconds best, const PlanSearchOptions& options,
                  const std::function<bool(const ParallelPlan&)>& provable,
                  const std::function<ScheduleBound(const ParallelPlan&, Nanoseconds aim, std::size_t rounds)>& proof) {
  std::uint64_t work = 0;
  // The first pass takes few rounds for all candidates; the others take all rounds for those still below the aim.
  constexpr struct {
    double share;
    std::size_t rounds;
  } kPasses[] = {{0.9, kGlance}, {0.9, kWhole}, {0.95, kWhole}, {0.98, kWhole}, {1.0, kWhole}};
  for (const auto& pass : kPasses) {
    const Nanoseconds aim{static_cast<std::int64_t>(pass.share * static_cast<double>(best.count))};
    std::vector<PlanCandidate*> open;
    for (PlanCandidate* each : candidates)
      if (each->bound < aim && provable(each->plan)) open.push_back(each);
    // The effort may not be enough for all candidates: the least bounds come first.
    sort_by(open, &PlanCandidate::bound);
    for (std::size_t first = 0; first < open.size(); first += kProofsAtOnce) {
      if (work > kProofs || (options.stop && options.stop())) return;
      const std::size_t count = std::min(kProofsAtOnce, open.size() - first);
      std::vector<std::uint64_t> each(count);
      parallel_for(thread_count(options.threads), count, [&](std::size_t i) {
        if (options.stop && options.stop()) return;
        PlanCandidate& candidate = *open[first + i];
        const ScheduleBound proven = proof(candidate.plan, aim, pass.rounds);
        candidate.bound = std::max(candidate.bound, proven.bound);
        each[i] = proven.work;
      });
      for (const std::uint64_t of_one : each) work += of_one;
    }
    if (pass.rounds == kWhole &&
        std::ranges::any_of(candidates, [&](const PlanCandidate* each) { return each->bound < aim; }))
      return;
  }
}

}  // namespace trainyard
