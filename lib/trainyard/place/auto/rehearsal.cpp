#include "trainyard/place/auto/rehearsal.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <limits>
#include <numeric>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/piece.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kFew = 500, kMore = 2'000, kTimes = 4;  // ops of the first two parts, and growth factor
/// kShare: share of the seconds after which no larger part is tried. kWaited: share after which a member beyond its
/// grace is stopped. kBehind: how much longer than the best a schedule may be for its member to go on, as a share.
constexpr double kShare = 0.1, kWaited = 0.3, kBehind = 0.05;
/// kGrace: processor seconds that a member has beyond its share of the time. kLoaded: the wall-clock limit as a
/// multiple of that limit, since other work may have taken the processor.
constexpr double kGrace = 0.02, kLoaded = 4;
constexpr double kNever = std::numeric_limits<double>::infinity();

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double work_of(const Problem& problem) {
  const auto ops = static_cast<double>(problem.op_count());
  return ops * std::log(ops);
}

/// Runs members on growing parts of the problem, its first ops.
class Rehearsal {
 public:
  Rehearsal(const Problem& problem, std::span<const Placer* const> members, const PlaceOptions& options, double seconds)
      : problem_(problem), members_(members), options_(options), seconds_(seconds) {}

  std::vector<std::optional<Forecast>> run() {
    std::vector<std::size_t> asked(members_.size());
    std::iota(asked.begin(), asked.end(), std::size_t{0});
    for (std::size_t count = kFew; kTimes * count < problem_.op_count(); count *= kTimes) {
      const double before = clock_seconds();
      if (count > kMore && before + kTimes * seconds_of(asked) > began_ + kShare * seconds_) break;
      try {
        ask(asked, first_ops(problem_, count));
      } catch (const InputError&) {  // the first ops split ops that belong together
        break;
      }
      std::erase_if(asked, [&](std::size_t i) {
        return !forecasts_[i] || forecasts_[i]->seconds == kNever || forecasts_[i]->ops < count;
      });
      if (count < kMore) continue;
      keep_the_best(asked);
    }
    return std::move(forecasts_);
  }

 private:
  void ask(const std::vector<std::size_t>& asked, const Problem& part) {
    parallel_for(thread_count(options_.threads), asked.size(), [&](std::size_t turn) {
      const std::size_t i = asked[turn];
      const double share = static_cast<double>(part.op_count()) / static_cast<double>(problem_.op_count());
      const double began = clock_seconds(), before = processor_seconds();
      const double most = share * seconds_ + kGrace;
      const Run last = runs_[i];
      std::atomic<bool> cut = false;  // stopped as the time of all members is up
      std::optional<Forecast> forecast;
      try {
        const Schedule schedule = place_by(
            *members_[i], part,
            {.seed = options_.seed,
             .rewrites = options_.rewrites,
             .batch = options_.batch,
             .budget = {.quick = options_.budget.quick},
             .stop = [&] {
               const double took = processor_seconds() - before;
               if (took > most || clock_seconds() - began > kLoaded * most || (options_.stop && options_.stop()))
                 return true;
               cut = took > kGrace && clock_seconds() > began_ + kWaited * seconds_;
               return bool{cut};
             }});
        const double took = std::max(processor_seconds() - before, 1e-6), waited = clock_seconds() - began;
        runs_[i] = {work_of(part), took, waited};
        // Time that does not grow with the graph was part of the last run too, and cancels here.
        const double each = std::max(took - last.took, 1e-6) / (runs_[i].work - last.work);
        const double all = took + each * (work_of(problem_) - runs_[i].work);
        if (schedule.rewrites.empty()) {
          check_schedule(part, schedule);
          forecast = {std::max(waited / took, 1.0) * all, Evaluator{part}.outcome(schedule), part.op_count()};
        }
      } catch (const NoPlacementError& error) {
        if (cut) return;
        if (error.findings().front().code == "time") forecast = {kNever, {Bytes{0}, kLongestTime}, part.op_count()};
      } catch (const std::exception&) {  // the member has no answer
      }
      forecasts_[i] = forecast;
    });
  }

  /// Wall-clock seconds of these members on the last part, divided by the number of threads.
  double seconds_of(const std::vector<std::size_t>& asked) const {
    double sum = 0;
    for (const std::size_t i : asked) sum += runs_[i].waited;
    return sum / thread_count(options_.threads);
  }

  /// Removes members whose schedule is more than kBehind longer than the best. Outcomes become classes: the remaining
  /// members get the best outcome, and removed ones that are less than twice as long get twice as long. Within a class,
  /// quicker members are preferred.
  void keep_the_best(std::vector<std::size_t>& asked) {
    if (asked.empty()) return;
    Outcome best = forecasts_[asked.front()]->outcome;
    for (const std::size_t i : asked) best = std::min(best, forecasts_[i]->outcome);
    const auto step = [&](double times) {
      return Outcome{best.excess, Nanoseconds{std::llround(times * static_cast<double>(best.makespan.count))}};
    };
    std::erase_if(asked, [&](std::size_t i) {
      Outcome& outcome = forecasts_[i]->outcome;
      const bool alike = outcome <= step(1 + kBehind);
      if (alike)
        outcome = best;
      else if (outcome < step(2))
        outcome = step(2);
      return !alike;
    });
  }

  const Problem& problem_;
  const std::span<const Placer* const> members_;
  const PlaceOptions& options_;
  const double seconds_, began_ = clock_seconds();
  /// A member's run on the last part.
  struct Run {
    double work = 0, took = 0, waited = 0;  // n log n; seconds of the processor; of the clock
  };
  std::vector<Run> runs_ = std::vector<Run>(members_.size());
  std::vector<std::optional<Forecast>> forecasts_ = std::vector<std::optional<Forecast>>(members_.size());
};

}  // namespace

std::vector<std::optional<Forecast>> rehearse(const Problem& problem, std::span<const Placer* const> members,
                                              const PlaceOptions& options, double seconds) {
  return Rehearsal{problem, members, options, seconds}.run();
}

}  // namespace trainyard
