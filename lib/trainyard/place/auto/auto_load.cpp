#include "trainyard/place/auto/auto_load.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/parallel.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/schedule_archive.hpp"
#include "trainyard/place/load/load_placers.hpp"
#include "trainyard/place/load/load_search.hpp"
#include "trainyard/throughput/from_problem.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kSearches = 4;            // searches in a round
constexpr std::uint64_t kOfOneSearch = 50'000;  // most evaluations of a search
constexpr std::uint64_t kUsual = 8 * kOfOneSearch;

/// A schedule, compared by an Outcome whose makespan is the load.
struct Loaded {
  Schedule schedule;
  Outcome outcome;
};
template <class Archive>
void archive_fields(Archive& archive, Loaded& loaded) {
  archive(loaded.schedule, loaded.outcome);
}

class AutoLoad {
 public:
  AutoLoad(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options)
      : problem_(problem),
        members_(members),
        options_(options),
        load_(load_problem(problem)),
        threads_(thread_count(options.threads)),
        effort_(options.budget, options.stop) {
    // Members need not keep the mates of load_ together, so the bound is for colocation groups alone.
    const Picoseconds bound = load_lower_bound(load_problem(problem, {.mates = LoadMates::colors}));
    bound_ = Nanoseconds{(bound.count + 999) / 1000};  // rounded up: loads are whole nanoseconds
  }

  Schedule run() {
    ask();
    report();
    const std::uint64_t most =
        options_.budget.given() ? options_.budget.evaluations.value_or(Effort::kUnlimited) : kUsual;
    const std::uint64_t before = evaluations_;
    for (std::uint64_t round = 0; !done() && evaluations_ - before < most && !effort_.late(); ++round) {
      const std::uint64_t each = std::min(kOfOneSearch, (most - (evaluations_ - before) + kSearches - 1) / kSearches);
      improve(round, each);
      report();
    }
    best_->schedule.search = Search{evaluations_, std::nullopt};
    best_->schedule.rewrites.clear();
    return std::move(best_->schedule);
  }

 private:
  Loaded judged(Schedule schedule) const {
    const Bytes excess = options_.sizes_alone ? evaluate_load(load_, schedule.placement).excess
                                              : Evaluator{problem_}.outcome(schedule).excess;
    const Nanoseconds value = max_load(problem_, schedule.placement);
    return {std::move(schedule), {excess, value}};
  }
  void offer(Loaded candidate) {
    if (!best_ || candidate.outcome < best_->outcome) best_ = std::move(candidate);
  }

  void ask() {
    auto answers = ask_members(
        problem_, members_, options_, [&](Waiting) { return effort_.late(); },
        [&](Schedule schedule) -> std::optional<Loaded> {
          // A rewritten graph does other work per step: its load is not comparable op by op, nor is its placement one
          // of this problem.
          if (!schedule.rewrites.empty()) return std::nullopt;
          check_schedule(problem_, schedule);
          return judged(std::move(schedule));
        },
        options_.budget.seconds);
    evaluations_ += answers.size();
    for (Loaded& answer : answers) offer(std::move(answer));
  }

  /// Half of the searches start from the best placement, the others from scratch.
  void improve(std::uint64_t round, std::uint64_t each) {
    const Placement from = best_->schedule.placement;
    std::vector<std::optional<Loaded>> found(kSearches);
    std::vector<std::uint64_t> used(kSearches, 0);
    parallel_for(threads_, kSearches, [&](std::size_t i) {
      if (!is_mine(options_.team, i) || effort_.late()) return;
      Random random = Random::stream(options_.seed, round * kSearches + i);
      const LoadSearchOptions search{.evaluations = std::max<std::uint64_t>(each, 1'000),
                                     .seed = random.next(),
                                     .stop = [this] { return effort_.late(); }};
      const LoadSearchResult result = i % 2 == 0 ? improve_load(load_, from, search) : search_load(load_, search);
      used[i] = result.evaluations;
      found[i] = judged(ordered_schedule(problem_, result.placement));
    });
    share_values(options_.team, found);
    share_values(options_.team, used);
    for (std::size_t i = 0; i < kSearches; ++i) {
      evaluations_ += std::max<std::uint64_t>(used[i], 1);
      if (found[i]) offer(std::move(*found[i]));
    }
  }

  bool done() const { return best_->outcome <= Outcome{Bytes{0}, bound_}; }

  void report() const {
    if (!options_.on_progress) return;
    options_.on_progress({best_->outcome.makespan, best_->outcome.excess.count == 0, bound_, evaluations_});
  }

  const Problem& problem_;
  const std::span<const Placer> members_;
  const PlaceOptions& options_;
  const LoadProblem load_;
  const unsigned threads_;
  Nanoseconds bound_{};
  const Effort effort_;
  std::optional<Loaded> best_;
  std::uint64_t evaluations_ = 0;
};

}  // namespace

Schedule auto_load(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options) {
  return AutoLoad{problem, members, options}.run();
}

}  // namespace trainyard
