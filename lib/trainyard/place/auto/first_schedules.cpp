#include "trainyard/place/auto/first_schedules.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/baechi/m_topo.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/schedule_archive.hpp"
#include "trainyard/place/kit/team.hpp"
#include "trainyard/place/list/relay.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"

namespace trainyard {
namespace {

/// The share of the evaluations that best orders of members' schedules may take.
constexpr double kOrdersShare = 0.25;
/// The longest that best_order() takes, in full simulations.
constexpr double kOrdersTime = 8;
/// The share of the seconds after which the placer `plan` ends, and on large graphs relay_on_fewer().
constexpr double kPatience = 0.7;
/// The shares after which members that run ahead of `plan` end, so that time is left for it, and end when they run
/// again.
constexpr double kAhead = 0.15, kAgain = 0.8;

class Asking {
  using Clock = std::chrono::steady_clock;

 public:
  Asking(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options, const Effort& effort)
      : problem_(problem),
        members_(members),
        options_(options),
        effort_(effort),
        threads_(thread_count(options.threads)),
        hurries_(effort.seconds_left().has_value()),
        rations_(!hurries_ &&
                 static_cast<double>(members.size() * kOrders) > kOrdersShare * static_cast<double>(effort.left())),
        members_share_(is_large(problem) ? 0.8 : 0.4) {}

  FirstSchedules run() {
    std::optional<Ordered> fewer = on_fewer_devices();
    if (!fewer || !effort_.late(members_share_)) found_ = members_answers();
    if (fewer) found_.push_back(std::move(*fewer));
    if (hurries_) fit_by_one_walk();
    sort_by(found_, &Ordered::outcome);
    if (hurries_) order_in_time();
    if (rations_) order_first();
    FirstSchedules result;
    for (const Ordered& each : found_) {
      result.evaluations += each.evaluations;
      if (each.schedule.plan_bound) result.plan_bound = each.schedule.plan_bound;
    }
    sort_by(found_, &Ordered::outcome);
    result.found = std::move(found_);
    result.seconds_of_evaluation = evaluation_;
    return result;
  }

 private:
  /// Runs relay_on_fewer() before the members on large graphs. It judges by the first ops which block sizes are worth
  /// the time.
  std::optional<Ordered> on_fewer_devices() {
    std::vector<std::optional<Ordered>> answers(1);
    if (is_large(problem_) && is_mine(options_.team, 0))
      if (const auto schedule = relay_on_fewer(problem_, kLongestTime, [this] { return effort_.late(kPatience); }))
        answers[0] = judge(*schedule);
    share_values(options_.team, answers);
    return std::move(answers[0]);
  }

  std::vector<Ordered> members_answers() {
    const double share = members_share_;
    std::optional<double> seconds = effort_.seconds_left();
    if (seconds) seconds = std::max(0.0, *seconds - (1 - share) * *options_.budget.seconds);
    return ask_members(
        problem_, members_, options_,
        [&](Waiting waiting) {
          return effort_.late(waiting == Waiting::patient ? std::max(kPatience, share)
                              : waiting == Waiting::again ? std::max(kAgain, share)
                              : waiting == Waiting::ahead ? std::max(kAhead, is_large(problem_) ? share : 0)
                                                          : share);
        },
        [this](const Schedule& schedule) { return judge(schedule); }, seconds);
  }

  /// A member's schedule and its outcome, under its best order, or under its own if seconds or evaluations are short.
  /// None if the schedule has rewrites and these are not allowed. Throws InputError if the schedule is invalid,
  /// OutOfTime if its graph is not made in time and another member has answered.
  std::optional<Ordered> judge(const Schedule& schedule) {
    if (!options_.rewrites && !schedule.rewrites.empty()) return std::nullopt;
    const Problem problem =
        scheduled_problem(problem_, schedule, Checkpoint{[this] { return judged_ && hurries_ && effort_.late(); }});
    check_schedule(problem, schedule);
    if (!hurries_ && !rations_) return best_order(problem, schedule);
    const Clock::time_point start = Clock::now();
    Ordered answer{schedule, Evaluator{problem}.outcome(schedule), 1};
    judged_ = true;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    for (double longest = evaluation_; seconds > longest && !evaluation_.compare_exchange_weak(longest, seconds);) {
    }
    return answer;
  }

  /// If no answer fits in memory, the memory-aware members ran out of time: places the graph in one pass (m-TOPO).
  void fit_by_one_walk() {
    if (std::ranges::any_of(found_, [](const Ordered& each) { return each.outcome.excess.count == 0; })) return;
    try {
      if (auto topological = judge(m_topo(problem_))) found_.push_back(std::move(*topological));
    } catch (const InputError&) {  // m-TOPO has no answer
    }
  }

  /// Gives the answers their best orders, the best answer first, as long as there is time. On graphs that are not
  /// large, the best answer gets its best order in any case, if its own graph is made in time.
  void order_in_time() {
    const bool large = is_large(problem_);
    parallel_for(threads_, found_.size(), [&](std::size_t i) {
      const bool ends = !large || *effort_.seconds_left() > kOrdersTime * evaluation_;
      if ((i > 0 || large) && (!ends || effort_.late(members_share_ + 0.1))) return;
      try {
        const Schedule& own = found_[i].schedule;
        found_[i] = best_order(scheduled_problem(problem_, own, Checkpoint{[this] { return effort_.late(); }}), own);
      } catch (const OutOfTime&) {  // keeps its own order
      }
    });
  }

  /// Gives the best answers their best orders, one answer for each placement, within their share of the evaluations;
  /// the best answer in any case.
  void order_first() {
    const auto share = static_cast<std::uint64_t>(kOrdersShare * static_cast<double>(effort_.left()));
    std::uint64_t spent = found_.size();
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < found_.size() && (chosen.empty() || spent + kOrders <= share); ++i) {
      const Schedule& schedule = found_[i].schedule;
      if (std::ranges::any_of(chosen, [&](std::size_t j) {
            const Schedule& other = found_[j].schedule;
            return other.rewrites == schedule.rewrites && other.placement == schedule.placement;
          }))
        continue;
      chosen.push_back(i);
      spent += kOrders;
    }
    parallel_for(threads_, chosen.size(), [&](std::size_t turn) {
      Ordered& each = found_[chosen[turn]];
      each = best_order(scheduled_problem(problem_, each.schedule), each.schedule);
    });
  }

  const Problem& problem_;
  const std::span<const Placer> members_;
  const PlaceOptions& options_;
  const Effort& effort_;
  const unsigned threads_;
  const bool hurries_;  // the budget is in seconds
  const bool rations_;  // best orders of all members' schedules would take more than kOrdersShare of the evaluations
  const double
      members_share_;  // of the seconds; larger on large graphs, where few evaluations of a search find nothing
  std::vector<Ordered> found_;
  std::atomic<bool> judged_ = false;    // a member's schedule was judged
  std::atomic<double> evaluation_ = 0;  // seconds of the longest simulation of a member's schedule
};

}  // namespace

FirstSchedules first_schedules(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options,
                               const Effort& effort) {
  return Asking{problem, members, options, effort}.run();
}

}  // namespace trainyard
