#include "trainyard/place/parallel/plan_trials.hpp"

#include <set>
#include <tuple>

#include "trainyard/core/limits.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/team.hpp"
#include "trainyard/plan/plan_fitting.hpp"
#include "trainyard/plan/plan_moves.hpp"

namespace trainyard {
namespace {

/// Upper limit on the plans simulated while looking for the requested number that fit in memory.
constexpr std::size_t kTried = 24;
/// The kImproved best simulated plans are improved by moves: the kMoves likeliest each time (kAllMoves for the best
/// plan), of kMovedOps ops together.
constexpr std::size_t kImproved = 6, kMoves = 12, kAllMoves = 64;
constexpr double kMovedOps = 800'000;
/// When kMovedOps are used up, the best plans of other degrees or schedules, at most kOthers, are improved too if their
/// steps are at most kOtherPercent longer than the best one: by moves of kOtherOps ops each.
constexpr std::size_t kOthers = 6;
constexpr std::int64_t kOtherPercent = 15;
constexpr double kOtherOps = 100'000;
/// The best plan's moves of stages and of their devices are tried if their estimates are at most this much longer.
constexpr std::int64_t kStagePercent = 10;
/// If kTried or more plans have at most this many ops together, all are simulated, and the best of them improved.
constexpr double kSmallOps = 100'000;
/// Limit on the ops of a plan that is tried with many sizes of buckets and, if it is the best, with all moves.
constexpr double kOftenOps = 20'000;
/// If the search has taken all the time, plans with this many ops together, which take a second or two, are still
/// simulated until one fits.
constexpr double kHastyOps = 250'000;
/// Plans that are simulated at once have at most kOpsAtOnce ops together, unless it is a single plan: a million ops
/// take one or two gigabytes.
constexpr double kMostOps{limits::kRewrittenOps}, kOpsAtOnce = 2 * kMostOps;

/// Degrees and schedule of a plan.
auto kind_of(const ParallelPlan& plan) {
  return std::tuple{plan.data, plan.layer_degree(), plan.degrees, plan.stages(), plan.schedule};
}

/// The result of simulating a plan.
struct Trial {
  enum class End : std::uint8_t { simulated, too_large, out_of_time };
  End end = End::simulated;
  Outcome outcome = {};
  std::size_t fits = 0;                           // fitting steps before the outcome
  std::vector<std::optional<Bytes>> spares = {};  // of each plan that was simulated

  template <class Archive>
  friend void archive_fields(Archive& archive, Trial& trial) {
    archive(trial.end, trial.outcome, trial.fits, trial.spares);
  }
};

}  // namespace

double PlanTrials::ops_of(const ParallelPlan& plan) const {
  return planned_ops(setting_.problem.graph(), plan, setting_.batch / plan.data / plan.microbatch);
}

double PlanTrials::simulated_ops_of(const ParallelPlan& plan) const {
  const PlanDetail detail = setting_.detail_of(plan).value_or(PlanDetail::folded);
  return planned_ops(setting_.problem.graph(), plan, setting_.batch / plan.data / plan.microbatch,
                     detail == PlanDetail::rings ? Collective::ring : Collective::whole, detail == PlanDetail::folded);
}

void PlanTrials::choose(std::vector<RatedPlan>& plans) {
  std::size_t within = 0;
  for (double ops = 0; within < plans.size(); ++within)
    if ((ops += ops_of(plans[within].plan)) > kSmallOps) break;
  small_ = setting_.options.candidates > 1 && within >= std::min(kTried, plans.size());
  if (small_) plans.resize(within);
}

SimulatedPlans PlanTrials::best_of(const std::vector<RatedPlan>& rated, std::size_t candidates, bool different,
                                   bool fitted) {
  const auto kind = [&](std::size_t i) {
    const ParallelPlan& plan = rated[i].plan;
    return std::tuple{kind_of(plan), plan.zero < 2 ? 0 : plan.zero, different ? 0 : i};
  };
  std::set<decltype(kind(0))> fitting;
  struct Made {  // by this rank
    std::optional<PlannedSchedule> best = {};
    std::optional<Finding> refusal = {};
  };
  SimulatedPlans result;
  const auto try_plan = [&](std::size_t i, double hasty_ops, Trial& trial, Made& made) {
    try {
      std::optional<Fitting> fits;
      if (fitted) fits.emplace(costs_, search_, rated[i], small_);
      for (const RatedPlan* now = &rated[i]; now != nullptr;) {
        hasty_ops -= simulated_ops_of(now->plan);
        PlannedSchedule each = hasty_ops >= 0 ? setting_.planned(now->plan, {}) : setting_.planned(now->plan);
        trial.spares.push_back(each.spare);
        if (trial.spares.size() == 1 || each.outcome < trial.outcome) {
          trial.outcome = each.outcome;
          trial.fits = trial.spares.size() - 1;
          made.best = std::move(each);
        }
        if (trial.outcome.excess == Bytes{0}) hasty_ops = 0;
        now = fits ? fits->next(trial.spares.back()) : nullptr;
      }
    } catch (const OutOfTime&) {
      if (trial.spares.empty()) trial.end = Trial::End::out_of_time;
    } catch (const InputError& error) {
      if (error.findings().front().code != "too-large") throw;
      if (!trial.spares.empty()) return;
      made.refusal = error.findings().front();
      trial.end = Trial::End::too_large;
    }
  };
  // The plan that try_plan() has found, on this rank or another.
  const auto plan_of = [&](std::size_t i, const Trial& trial) {
    if (trial.fits == 0) return rated[i];
    Fitting fits{costs_, search_, rated[i], small_};
    for (std::size_t k = 0; k < trial.fits; ++k) fits.next(trial.spares[k]);
    return fits.plan(trial.fits);
  };
  bool found = false, late = false;
  ParallelPlan best_plan;
  Outcome outcome;
  Team* const team = setting_.options.team;
  const unsigned threads = team ? 1 : thread_count(setting_.options.threads);
  const std::size_t most = team ? team->count() : threads;
  std::size_t left = small_ ? rated.size() : std::max(kTried, candidates);
  for (std::size_t next = 0; next < rated.size() && left > 0 && fitting.size() < candidates && !late;) {
    std::vector<std::size_t> turn;
    for (double ops = 0; next < rated.size() && turn.size() < most; ++next) {
      if (fitting.contains(kind(next))) continue;
      ops += std::min(ops_of(rated[next].plan), kMostOps);  // larger plans are folded to this size
      if (!team && !turn.empty() && ops > kOpsAtOnce) break;
      turn.push_back(next);
    }
    std::vector<Trial> trials(turn.size());
    std::vector<Made> made(turn.size());
    // The first plan is simulated even if time is up, unless it is too large, so that there is an answer.
    const double hasty_ops = std::exchange(answered_, true) ? 0 : kHastyOps;
    parallel_for(threads, turn.size(), [&](std::size_t t) {
      if (is_mine(team, t)) try_plan(turn[t], t == 0 ? hasty_ops : 0, trials[t], made[t]);
    });
    share_values(team, trials);
    // Takes the trials in order. Surplus ones, which ran only because of parallelism, do not count.
    for (std::size_t t = 0; t < turn.size() && left > 0 && fitting.size() < candidates && !late; ++t) {
      if (fitting.contains(kind(turn[t]))) continue;
      --left;
      if (made[t].refusal) result.refusal = made[t].refusal;
      if (trials[t].end == Trial::End::too_large) continue;
      late = trials[t].end == Trial::End::out_of_time;
      if (late) break;
      if (trials[t].outcome.excess == Bytes{0}) fitting.insert(kind(turn[t]));
      result.all.push_back({trials[t].outcome, plan_of(turn[t], trials[t]), trials[t].spares[trials[t].fits]});
      if (found && outcome <= trials[t].outcome) continue;
      found = true;
      result.best = std::move(made[t].best);
      best_plan = result.all.back().rated.plan;
      outcome = trials[t].outcome;
    }
  }
  if (late && !found) throw OutOfTime{};
  if (!found) return result;
  if (!result.best) result.best = setting_.planned(best_plan);  // made by another rank
  std::ranges::stable_sort(result.all, {}, &SimulatedPlans::Plan::outcome);
  return result;
}

void PlanTrials::search_with_less_memory(SimulatedPlans& found, std::vector<RatedPlan> tried, Nanoseconds promised) {
  if (!small_ || !costs_.memory) return;
  PlanCosts costs = costs_;
  for (std::int64_t tenths = 8; tenths >= kLeastTenths; --tenths) {
    if (found.best->outcome <= Outcome{Bytes{0}, Nanoseconds{promised.count / 20 * 21}}) return;
    costs.memory = Bytes{costs_.memory->count / 10 * tenths};
    std::vector<RatedPlan> plans;
    try {
      plans = search_plans(costs, search_).best;
    } catch (const InputError&) {  // no plan fits in so little
      return;
    }
    promised = plans.front().run.step;
    std::erase_if(plans, [&](const RatedPlan& each) {
      return std::ranges::any_of(tried, [&](const RatedPlan& other) { return other.plan == each.plan; });
    });
    double ops = 0;
    std::erase_if(plans, [&](const RatedPlan& each) { return (ops += ops_of(each.plan)) > kSmallOps; });
    tried.insert(tried.end(), plans.begin(), plans.end());
    found.add(best_of(plans));
  }
}

SimulatedPlans PlanTrials::search_with_more_zero(const Outcome& found, Nanoseconds promised, Nanoseconds& bound) {
  // Across hosts, gathers hold NVLink as long as network cards.
  if (setting_.options.candidates == 1 || !costs_.memory || setting_.has_hosts()) return {};
  if (search_.stop && search_.stop()) return {};
  PlanCosts roomy = costs_;
  roomy.memory.reset();
  PlanSearchOptions one = search_;
  one.kept = 1;
  one.proves = false;
  if (search_plans(roomy, one).best.front().run.step.count > promised.count / 100 * 99) return {};
  PlanSearchOptions all = search_;
  all.most_zero_with_ranks = 3;
  PlanSearchResult more = search_plans(costs_, all);
  search_ = std::move(all);
  bound = std::min(bound, more.bound);
  double ops = 0;
  std::erase_if(more.best, [&](const RatedPlan& each) {
    const bool usual =
        each.plan.zero < 2 || (each.plan.devices_in_row() == 1 && !each.plan.layer_degree().communicates());
    return usual || found <= Outcome{each.run.excess(costs_.memory), each.run.step} ||
           (ops += ops_of(each.plan)) > (small_ ? kSmallOps : kMovedOps);
  });
  return best_of(more.best);
}

void PlanTrials::improve(SimulatedPlans& found) {
  if (setting_.options.candidates == 1 || !found.best) return;
  const std::size_t plans = small_ ? kTried : kImproved;
  const auto simulated = [&](const std::vector<RatedPlan>& rated) {
    return best_of(rated, rated.size(), false, false);
  };
  double left = kMovedOps;
  SimulatedPlans::Plan now, best = found.all.front();
  // Adopts the best of these if it improves on the current plan; returns whether it does.
  const auto is_better = [&](SimulatedPlans next) {
    if (!next.best || next.best->outcome >= now.outcome) return false;
    now = std::move(next.all.front());
    if (now.outcome < found.best->outcome) {
      found.best = std::move(next.best);
      best = now;
    }
    return true;
  };
  // Tries the likeliest of `moves`, at most `most`.
  const auto try_likeliest = [&](std::vector<RatedPlan> moves, std::size_t most) {
    std::erase_if(moves, [&](const RatedPlan& move) { return !setting_.detail_of(move.plan); });
    const double each = ops_of(now.rated.plan);
    moves.resize(std::min({moves.size(), most, static_cast<std::size_t>(std::max(0.0, left) / each)}));
    left -= each * static_cast<double>(moves.size());
    return !moves.empty() && is_better(simulated(moves));
  };
  const auto roomy = [&] {
    PlanCosts full = costs_;
    if (costs_.memory && now.spare)  // 2 % more: as simulated, moves may fit
      full.memory = Bytes{estimated_when_full(now.rated.run, *costs_.memory, *now.spare).count / 50 * 51};
    return full;
  };
  const auto try_moves = [&](std::size_t most) {
    return try_likeliest(moves_of(roomy(), search_, now.rated.plan), most);
  };
  const auto try_stages = [&] {
    if (!search_.stage_degrees) return false;
    std::vector<RatedPlan> moves = stage_moves_of(roomy(), now.rated.plan);
    const Nanoseconds most{now.rated.run.step.count / 100 * (100 + kStagePercent)};
    std::erase_if(moves, [&](const RatedPlan& move) { return move.run.step > most; });
    return try_likeliest(std::move(moves), kAllMoves);
  };
  const auto try_sizes = [&](const std::vector<RatedPlan>& sizes) {
    const double ops = ops_of(now.rated.plan) * static_cast<double>(sizes.size());
    return !sizes.empty() && ops <= kMovedOps && setting_.detail_of(now.rated.plan) && is_better(simulated(sizes));
  };
  const auto is_within = [&](const Outcome& outcome, std::int64_t percent) {
    const auto [excess, makespan] = found.best->outcome;
    return outcome <= Outcome{excess, Nanoseconds{makespan.count / 100 * (100 + percent)}};
  };
  std::set<decltype(kind_of(best.rated.plan))> moved;
  const auto improve_from = [&](const SimulatedPlans::Plan& start) {
    now = start;
    if (left >= ops_of(now.rated.plan)) moved.insert(kind_of(now.rated.plan));
    Fitting fitting{costs_, search_, now.rated, true};
    for (std::optional<Bytes> spare = now.spare; !small_ && left >= ops_of(now.rated.plan);) {
      const RatedPlan* next = fitting.next(spare);
      if (next == nullptr || !setting_.detail_of(next->plan)) break;
      left -= ops_of(next->plan);
      SimulatedPlans each = simulated({*next});
      if (!each.best) break;
      spare = each.all.front().spare;
      is_better(std::move(each));
    }
    while (try_moves(kMoves)) {
    }
    // Estimates do not know how sums and exchanges of ranks, experts and stages delay each other.
    const ParallelPlan& plan = now.rated.plan;
    if (ops_of(plan) <= kOftenOps && is_within(now.outcome, 10) && (plan.devices() > plan.data || plan.experts > 1)) {
      try_sizes(distant_bucket_sizes_of(costs_, plan, false));
      try_sizes(zero_stages_of(costs_, now.rated.plan));
    }
    if (is_within(now.outcome, 3)) try_sizes(bucket_sizes_of(costs_, plan));
  };
  for (std::size_t i = 0; i < std::min(plans, found.all.size()); ++i) improve_from(found.all[i]);
  std::size_t others = 0;
  for (const SimulatedPlans::Plan& each : found.all) {
    if (others == kOthers || !is_within(each.outcome, kOtherPercent)) break;
    if (moved.contains(kind_of(each.rated.plan))) continue;
    left = kOtherOps;
    ++others;
    improve_from(each);
  }
  now = std::move(best);
  if (ops_of(now.rated.plan) > kOftenOps) return;
  left = kMovedOps;
  for (bool goes_on = true; goes_on;) {
    goes_on = try_sizes(distant_bucket_sizes_of(costs_, now.rated.plan, true));
    goes_on = try_sizes(bucket_sizes_of(costs_, now.rated.plan)) || goes_on;
    goes_on = try_moves(kAllMoves) || goes_on;
    goes_on = try_sizes(zero_stages_of(costs_, now.rated.plan)) || goes_on;
    goes_on = try_stages() || goes_on;
  }
}

}  // namespace trainyard
