#include "trainyard/place/auto/auto.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/place/auto/clusters.hpp"
#include "trainyard/place/auto/local_search.hpp"
#include "trainyard/place/evaluator.hpp"
#include "trainyard/place/orders.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

using Clock = std::chrono::steady_clock;

/// Placers that may take long are members up to this many ops.
constexpr std::size_t kExhaustible = 20;
constexpr std::size_t kIslands = 4, kRounds = 24;
/// The heat of the first round and of the last, in critical ops (LocalSearch::run); between them it falls evenly on a
/// logarithmic scale.
constexpr double kHot = 0.1, kCold = 0.003;
/// Schedules that differ in less than this share of the op time are not worth an island each.
constexpr double kAlike = 0.03;

class AutoPlacer {
 public:
  AutoPlacer(const Problem& problem, const PlaceOptions& options)
      : problem_(problem),
        options_(options),
        budget_(options.budget.given() ? options.budget : usual_budget(problem)),
        threads_(thread_count(options.threads)),
        bound_(best_lower_bound(problem).value) {
    if (budget_.seconds)
      deadline_ = start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*budget_.seconds));
  }

  Schedule run() {
    if (problem_.op_count() == 0) return {};
    ask_members();
    if (found_.empty()) throw no_member_;
    if (split_ && split_->outcome < found_.front().outcome) {
      problem_ = scheduled_problem(problem_, split_->schedule);
      bound_ = best_lower_bound(problem_).value;
      found_ = {std::move(*split_)};
    }
    const std::vector<GraphSplit> splits = found_.front().schedule.splits;
    report();
    if (!done()) improve();
    Ordered& best = found_.front();
    best.schedule.splits = splits;
    best.schedule.search = Search{evaluations_, std::nullopt};
    return std::move(best.schedule);
  }

 private:
  /// Steps 2 and 3; what comes of it by outcome, ties in the order of the catalogue.
  void ask_members() {
    std::vector<const Placer*> members;
    for (const Placer& placer : placers())
      if (!placer.searches && !placer.trains && !(placer.exhaustive && problem_.op_count() > kExhaustible)) members.push_back(&placer);
    std::vector<std::optional<Ordered>> answers(members.size());
    std::vector<std::optional<InputError>> refusals(members.size());
    parallel_for(threads_, members.size(), [&](std::size_t i) {
      // One answer must be there, whatever the time; the first of the catalogue is the fastest.
      if (i > 0 && late(0.5)) return;
      try {
        const Schedule schedule = members[i]->place(problem_, {.seed = options_.seed});
        Evaluator evaluator{scheduled_problem(problem_, schedule)};
        answers[i] = best_order(evaluator, schedule);
      } catch (const InputError& error) {
        refusals[i] = error;
      } catch (const MissingError&) {  // needs what this build lacks
      }
    });
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (refusals[i] && no_member_.findings().empty()) no_member_ = *refusals[i];
      if (!answers[i]) continue;
      evaluations_ += answers[i]->evaluations;
      if (answers[i]->schedule.splits.empty())
        found_.push_back(std::move(*answers[i]));
      else if (!split_ || answers[i]->outcome < split_->outcome)
        split_ = std::move(*answers[i]);
    }
    std::ranges::stable_sort(found_, {}, &Ordered::outcome);
  }

  /// Step 4.
  void improve() {
    const auto levels = cluster_levels(problem_);
    const bool memory_binds = memory_may_bind(problem_);
    const std::vector<Schedule> starts = island_starts();
    std::vector<std::unique_ptr<LocalSearch>> islands(starts.size());
    parallel_for(threads_, islands.size(), [&](std::size_t i) {
      islands[i] =
          std::make_unique<LocalSearch>(problem_, levels, memory_binds, starts[i], Random::stream(options_.seed, i));
    });
    const std::uint64_t before = evaluations_;
    const std::uint64_t left = !budget_.evaluations            ? kNoLimit
                               : *budget_.evaluations > before ? *budget_.evaluations - before
                                                               : 0;
    const auto searched_from = Clock::now();
    for (std::size_t round = 0; round < kRounds && !done() && !stopped(); ++round) {
      const double progress = static_cast<double>(round) / (kRounds - 1);
      const std::uint64_t share = left == kNoLimit ? kNoLimit : share_of(left, round);
      parallel_for(threads_, islands.size(), [&](std::size_t i) {
        SearchSlice slice{.stop = options_.stop, .heat = kHot * std::pow(kCold / kHot, progress)};
        slice.evaluations = share == kNoLimit ? kNoLimit : share_of(share, i, islands.size());
        // Threads take islands one after the other: each has its share of the round's time.
        if (deadline_) slice.deadline = Clock::now() + slice_time(searched_from, round, islands.size());
        islands[i]->run(slice);
      });
      evaluations_ = before;
      for (const auto& island : islands) evaluations_ += island->evaluations();
      collect(islands);
      report();
      if (round + 1 < kRounds && round % 2 == 1) restart_last(islands);
    }
  }

  static constexpr std::uint64_t kNoLimit = static_cast<std::uint64_t>(-1) / 2;

  /// The round's, or the island's, share of what is to be split evenly.
  static std::uint64_t share_of(std::uint64_t all, std::size_t i, std::size_t parts = kRounds) {
    return all * (i + 1) / parts - all * i / parts;
  }

  Clock::duration slice_time(Clock::time_point from, std::size_t round, std::size_t islands) const {
    const auto round_time = (*deadline_ - from) / static_cast<std::int64_t>(kRounds);
    // A round that took longer shortens those after it.
    const auto round_end = from + round_time * static_cast<std::int64_t>(round + 1);
    const auto left = std::min(round_time, std::max(Clock::duration::zero(), round_end - Clock::now()));
    const auto turns = (islands + threads_ - 1) / threads_;
    return std::min(round_time, left) / static_cast<std::int64_t>(islands > threads_ ? turns : 1);
  }

  /// The best schedule, then the best of those that differ from all before; each as strict if that is no worse, since
  /// there orders can be searched too. The last island keeps fifo, which gives a moved op its place in the order by
  /// itself.
  std::vector<Schedule> island_starts() {
    std::vector<Schedule> starts;
    Evaluator evaluator{problem_};
    std::vector<const Ordered*> chosen;
    for (const Ordered& candidate : found_) {
      if (chosen.size() + 1 == kIslands) break;
      if (std::ranges::all_of(chosen, [&](const Ordered* other) {
            return differing(candidate.schedule.placement, other->schedule.placement) >= kAlike;
          }))
        chosen.push_back(&candidate);
    }
    for (const Ordered* each : chosen) {
      if (each->schedule.policy == Policy::strict) {
        starts.push_back(each->schedule);
        continue;
      }
      starts.push_back(
          in_started_order(problem_, each->schedule.placement, evaluator.simulation().timeline(each->schedule)));
    }
    while (starts.size() + 1 < kIslands) starts.push_back(starts.front());
    starts.push_back({.placement = found_.front().schedule.placement});
    for (Schedule& start : starts) start.plan.reset();
    return starts;
  }

  /// The share of op time that is elsewhere.
  double differing(const Placement& a, const Placement& b) const {
    double all = 0, elsewhere = 0;
    for (const OpId op : problem_.ops()) {
      const auto time = static_cast<double>(problem_.shortest(op).count);
      all += time;
      if (a[op] != b[op]) elsewhere += time;
    }
    return all > 0 ? elsewhere / all : 0;
  }

  void collect(const std::vector<std::unique_ptr<LocalSearch>>& islands) {
    for (const auto& island : islands) {
      if (island->best_outcome() >= found_.front().outcome) continue;
      found_.front() = {island->best(), island->best_outcome()};
    }
  }

  /// The island with the worst schedule goes on from the best of its policy; the others from where they are.
  void restart_last(const std::vector<std::unique_ptr<LocalSearch>>& islands) {
    const auto outcome = [](const auto& island) { return island->best_outcome(); };
    const auto best = std::ranges::min_element(islands, {}, outcome);
    const auto worst = std::ranges::max_element(islands, {}, outcome);
    if (outcome(*worst) > outcome(*best)) (*worst)->restart((*best)->best());
  }

  bool stopped() const {
    return (options_.stop && options_.stop()) || late(1) ||
           (budget_.evaluations && evaluations_ >= *budget_.evaluations);
  }
  /// More than this share of the time is over, or the user wants an end.
  bool late(double share) const {
    if (options_.stop && options_.stop()) return true;
    if (!deadline_) return false;
    return std::chrono::duration<double>(Clock::now() - start_).count() >= share * *budget_.seconds;
  }
  bool done() const { return found_.front().outcome <= Outcome{Bytes{0}, bound_}; }

  void report() const {
    if (!options_.on_progress) return;
    const Outcome& best = found_.front().outcome;
    options_.on_progress({best.makespan, best.excess.count == 0, bound_, evaluations_});
  }

  Problem problem_;  // that of the best splits, once the members have answered
  const PlaceOptions& options_;
  const Budget budget_;
  const unsigned threads_;
  Nanoseconds bound_;
  const Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> deadline_;
  std::vector<Ordered> found_;
  std::optional<Ordered> split_;  // the best with splits, which are of another graph
  InputError no_member_{std::vector<Finding>{}};
  std::uint64_t evaluations_ = 0;
};

}  // namespace

Budget usual_budget(const Problem& problem) {
  const auto ops = static_cast<std::uint64_t>(std::max<std::size_t>(1, problem.op_count()));
  return {.evaluations = std::max<std::uint64_t>(2'000, std::min(20'000'000 / ops, 1'000 * ops))};
}

Schedule auto_place(const Problem& problem, const PlaceOptions& options) { return AutoPlacer{problem, options}.run(); }

}  // namespace trainyard
