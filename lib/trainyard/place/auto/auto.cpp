#include "trainyard/place/auto/auto.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/portable_math.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/auto/auto_completion.hpp"
#include "trainyard/place/auto/auto_load.hpp"
#include "trainyard/place/auto/first_schedules.hpp"
#include "trainyard/place/auto/island.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/auto/multilevel.hpp"
#include "trainyard/place/auto/relief.hpp"
#include "trainyard/place/auto/split_moves.hpp"
#include "trainyard/place/exact/branch_and_bound.hpp"
#include "trainyard/place/fastt/dpos.hpp"
#include "trainyard/place/fastt/os_dpos.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/judge/orders.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/kit/schedule_archive.hpp"
#include "trainyard/place/kit/team.hpp"
#include "trainyard/place/list/relay.hpp"
#include "trainyard/place/offload/offload_placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"

namespace trainyard {
namespace {

/// Most devices for which branch and bound runs.
constexpr std::size_t kProvableDevices = 16;
constexpr std::size_t kRounds = 24, kSplits = 24, kRaced = 5, kLooks = 4;
/// Fewest evaluations of an island in a round: with fewer, a window is never worth its share.
constexpr std::uint64_t kLeastSlice = 40;
/// The heat (LocalSearch::run) of the first round and of the last; in between it falls geometrically.
constexpr double kHot = 0.1, kCold = 0.003;
/// Schedules that place less than this share of the op time differently are not worth an island each.
constexpr double kAlike = 0.03;
/// How much longer than the best of all, as a share, the best schedule of another graph may be for a search on it to be
/// hopeful. kYetHopeful is for when kHopeful leaves fewer graphs than islands.
constexpr double kHopeful = 0.2, kYetHopeful = 1;
/// Offloading is not tried on a schedule longer than offload_goal() by at most 1/50 of that goal.
constexpr std::int64_t kHardlyLonger = 50;
/// Limits of a search without a budget: fewest evaluations, and evaluations x ops, of the original graph and of the one
/// that the best member has made of it.
constexpr std::uint64_t kLeastEvaluations = 2'000, kUsualOps = 20'000'000, kUsualRewrittenOps = 60'000'000;
/// Limits of a quick search: evaluations x ops, and (op, device) pairs beyond which nothing is searched.
constexpr std::uint64_t kQuickOps = 1'500'000;
constexpr std::size_t kSearchedPairs = 10'000;

/// Progress of an island, known to all ranks of a team.
struct Standing {
  const SearchGround* ground;
  Ordered best = {};
};
template <class Archive>
void archive_fields(Archive& archive, Standing& standing) {
  archive(standing.best);
}

class AutoPlacer {
  using Clock = std::chrono::steady_clock;

 public:
  AutoPlacer(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options, std::size_t islands)
      : members_(members),
        options_(options),
        team_(options.team),
        island_count_(islands),
        effort_(options.budget.given() ? options.budget : usual_budget(problem), options.stop),
        threads_(thread_count(options.threads)),
        problem_(problem) {}

  Schedule run() {
    FirstSchedules first = first_schedules(base(), members_, options_, effort_);
    found_ = std::move(first.found);
    evaluations_ = first.evaluations;
    plan_bound_ = first.plan_bound;
    evaluation_ = first.seconds_of_evaluation;

    if (!options_.budget.given()) {
      const bool quick = options_.budget.quick;
      if (quick && base().op_count() * base().device_count() > kSearchedPairs) return best();
      const std::uint64_t ops = scheduled_problem(base(), found_.front().schedule).op_count();
      const std::uint64_t most = quick ? kQuickOps / ops : std::max(kLeastEvaluations, kUsualRewrittenOps / ops);
      const std::uint64_t evaluations = std::min(most, *usual_budget(base()).evaluations);
      effort_ = Effort{{.evaluations = quick ? evaluations_ + evaluations : evaluations}, options_.stop};
    }
    if (too_late_to_search()) return best();
    try {
      search();
    } catch (const OutOfTime&) {  // while the graph of a schedule was being made
    }
    return best();
  }

 private:
  void search() {
    grounds_.emplace_back(base());
    take_fewer_devices();
    replicate();
    offload();
    report();
    if (!done()) prove();
    if (!done() && !effort_.over(evaluations_)) {
      relieve();
      split_ops();
      if (!done() && base().op_count() > kMultilevelOps && !effort_.late(0.8)) search_levels();
      if (!done() && !effort_.over(evaluations_)) race();
      if (!done() && !effort_.over(evaluations_)) improve();
    }
  }

  Schedule best() {
    Schedule schedule = std::move(leader().schedule);
    schedule.search = Search{evaluations_, std::nullopt};
    schedule.plan_bound = plan_bound_;
    if (schedule.rewrites.empty() && proven_ > Nanoseconds{0}) schedule.search->lower_bound = proven_;
    return schedule;
  }
  const Problem& base() const { return problem_; }
  /// The best schedule of all.
  Ordered& leader() { return raced_ && raced_->outcome < found_.front().outcome ? *raced_ : found_.front(); }

  /// Runs an extra member. Its schedule is kept only if it beats every schedule found so far; otherwise the search goes
  /// on as if it had not run. `place` returns the schedule, or nothing.
  template <class Place>
  void hear(const Place& place) {
    std::vector<std::optional<Ordered>> answers(1);
    if (is_mine(team_, 0)) try {
        if (const std::optional<Schedule> schedule = place())
          answers[0] = best_order(scheduled_problem(base(), *schedule), *schedule);
      } catch (const InputError&) {  // the extra member has no answer
      } catch (const OutOfTime&) {
      }
    share_values(team_, answers);
    if (!answers[0] || answers[0]->outcome >= found_.front().outcome) return;
    evaluations_ += answers[0]->evaluations;
    found_.insert(found_.begin(), std::move(*answers[0]));
  }

  /// Tries fewer devices, except on large graphs, where first_schedules() has done so.
  void take_fewer_devices() {
    if (is_large(base()) || effort_.late(0.5)) return;
    hear([&] { return relay_on_fewer(base(), found_.front().outcome.makespan, [this] { return effort_.late(0.5); }); });
  }

  /// Adds data parallelism on fewer devices than all, which FastT does not try: 2, 4, 8 and 16 replicas.
  void replicate() {
    const std::size_t devices = base().device_count();
    if (!options_.rewrites || devices < 3 || !fastt_input(base(), OsDposOptions::Input::replicas)) return;
    std::vector<std::size_t> replicas;
    for (std::size_t r = 2; r < devices && r <= 16; r *= 2) replicas.push_back(r);
    std::vector<std::optional<Ordered>> answers(2 * replicas.size());
    parallel_for(threads_, answers.size(), [&](std::size_t i) {
      if (!is_mine(team_, i) || effort_.late(0.5)) return;
      try {
        const std::size_t count = replicas[i / 2];
        const auto stop = [this] { return effort_.late(0.5); };
        const Problem problem = apply_rewrites(base(), {Replicate{.replicas = count}}, Checkpoint{stop});
        const Schedule schedule = i % 2 == 0 ? dpos(problem, {.stop = stop}) : data_parallel_schedule(problem, count);
        Evaluator evaluator{problem};
        answers[i] = best_order(evaluator, schedule);
        answers[i]->schedule.rewrites = problem.rewrites();
        answers[i]->schedule.placer.clear();
      } catch (const InputError&) {  // the graph cannot be replicated
      } catch (const OutOfTime&) {
      }
    });
    share_values(team_, answers);
    for (auto& answer : answers) {
      if (!answer) continue;
      evaluations_ += answer->evaluations;
      found_.push_back(std::move(*answer));
    }
    sort_by(found_, &Ordered::outcome);
  }

  void offload() {
    if (!options_.rewrites || effort_.late(0.5)) return;
    const std::optional<Nanoseconds> goal = offload_goal(base());
    const Outcome& best = found_.front().outcome;
    if (!goal || (best.excess == Bytes{0} && best.makespan.count <= goal->count + goal->count / kHardlyLonger)) return;
    hear([&]() -> std::optional<Schedule> {
      Budget budget;
      if (options_.budget.quick) budget.evaluations = std::clamp<std::uint64_t>(kQuickOps / base().op_count(), 1, 400);
      return place_offload(base(), {},
                           {.seed = options_.seed, .budget = budget, .stop = [this] { return effort_.late(0.6); }});
    });
  }

  /// Step 4: searches the optimum of a small problem, and keeps the lower bound that is proven.
  void prove() {
    const Problem& problem = base();
    if (problem.op_count() > kProvable || problem.device_count() > kProvableDevices) return;
    const auto plain = std::ranges::find_if(found_, [](const Ordered& each) { return each.schedule.rewrites.empty(); });
    if (plain == found_.end()) return;
    const std::uint64_t left = effort_.left(evaluations_), part = problem.op_count() <= 32 ? 2 : 8;
    const BranchAndBoundResult result =
        branch_and_bound(problem, {.start = &plain->schedule,
                                   .most_nodes = left == Effort::kUnlimited ? left : left / part,
                                   .stop = [this] { return effort_.late(problem_is_tiny() ? 0.5 : 0.2); }});
    evaluations_ += result.nodes;
    grounds_.front().bound = std::max(grounds_.front().bound, result.bound);
    proven_ = result.bound;
    if (!result.schedule) return;
    const Outcome outcome = Evaluator{problem}.outcome(*result.schedule);
    if (outcome < plain->outcome) {
      found_.push_back({*result.schedule, outcome});
      sort_by(found_, &Ordered::outcome);
    }
    report();
  }
  bool problem_is_tiny() const { return base().op_count() <= 32; }

  /// Step 5: repairs the schedules of the original graph that no other beats in both makespan and excess. They evenly
  /// share an eighth of the effort, or half of it if no schedule fits. A schedule is worth repairing only while it is
  /// shorter than all that fit. Runs under priorities, which give a moved op its position.
  void relieve() {
    std::vector<Ordered> starts;
    Nanoseconds shortest = kLongestTime;
    for (const Ordered& each : found_) {  // the least excess first
      if (!each.schedule.rewrites.empty() || each.outcome.makespan >= shortest) continue;
      shortest = each.outcome.makespan;
      if (each.outcome.excess.count > 0) starts.push_back(each);
    }
    if (starts.empty()) return;
    const std::uint64_t before = evaluations_, part = found_.front().outcome.excess.count > 0 ? 2 : 8;
    Budget budget = rest();
    if (budget.evaluations) *budget.evaluations /= part;
    if (budget.seconds) *budget.seconds /= static_cast<double>(part);
    const Effort effort{budget, options_.stop};
    Nanoseconds fitting = kLongestTime;
    if (found_.front().outcome.excess == Bytes{0}) fitting = found_.front().outcome.makespan;
    const SearchGround& ground = grounds_.front();
    Evaluator evaluator{ground.problem};
    Schedule ranked{.placement = {}, .policy = Policy::priority};
    ranked.priority = rank_priorities(ground.problem);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::uint64_t spent = evaluations_ - before, rest = starts.size() - i;
      if (effort.over(spent)) break;
      ranked.placement = starts[i].schedule.placement;
      Budget share{.seconds = effort.seconds_left(), .evaluations = (effort.left(spent) + rest - 1) / rest};
      if (share.seconds) *share.seconds /= static_cast<double>(rest);
      Ordered answer = relieved(ground.problem, ground.levels, ranked, share, fitting, options_.stop);
      evaluations_ += answer.evaluations;
      if (answer.outcome.excess.count == 0) {
        answer = best_order(evaluator, answer.schedule);
        evaluations_ += answer.evaluations;
        fitting = std::min(fitting, answer.outcome.makespan);
      }
      found_.push_back(std::move(answer));
    }
    sort_by(found_, &Ordered::outcome);
    report();
  }

  /// The best schedule of each graph on which a search may still find the best of all, by its lower bound; at most one
  /// fewer than islands. Schedules that are hardly longer than the best come first. Longer ones follow if all islands
  /// have enough to do. found_.front() counts even if the race has found a much shorter schedule on its graph. Folded
  /// graphs are excluded: an op that moves there takes the ops that it stands for to devices that do not exist.
  std::vector<Ordered> contenders() {
    std::vector<Ordered> chosen;
    add_contenders(kHopeful, chosen);
    if (!chosen.empty() && chosen.size() + 1 < island_count_ && useful_islands() >= island_count_)
      add_contenders(kYetHopeful, chosen);
    return chosen;
  }
  void add_contenders(double longer, std::vector<Ordered>& chosen) {
    const Outcome best = leader().outcome;
    const double most = (1 + longer) * static_cast<double>(best.makespan.count);
    for (const Ordered& each : found_) {
      if (!chosen.empty() && chosen.size() + 1 >= island_count_) break;
      if ((&each != &found_.front() && static_cast<double>(each.outcome.makespan.count) > most) ||
          folded(each.schedule.rewrites).devices > 1 ||
          std::ranges::any_of(chosen, [&](const Ordered& other) { return alike(each, other); }))
        continue;
      if (Outcome{Bytes{0}, ground_of(each.schedule).bound} < best) chosen.push_back(each);
    }
  }
  bool done() { return contenders().empty(); }

  /// Step 6: splits ops on the critical paths of the contenders.
  void split_ops() {
    if (!options_.rewrites || effort_.late(0.4)) return;
    const std::vector<Ordered> starts = contenders();
    std::vector<std::optional<Ordered>> answers(starts.size());
    std::vector<std::uint64_t> evaluations(starts.size());
    parallel_for(threads_, starts.size(), [&](std::size_t i) {
      if (is_mine(team_, i))
        answers[i] =
            split_critical_ops(base(), starts[i], kSplits, evaluations[i], [this] { return effort_.late(0.4); });
    });
    share_values(team_, answers);
    share_values(team_, evaluations);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      evaluations_ += evaluations[i];
      if (answers[i]) found_.push_back(std::move(*answers[i]));
    }
    sort_by(found_, &Ordered::outcome);
    report();
  }

  /// Step 7: searches coarser graphs from each contender.
  void search_levels() {
    const std::vector<Ordered> starts = contenders();
    std::vector<const SearchGround*> grounds;
    for (const Ordered& each : starts) grounds.push_back(&ground_of(each.schedule));
    Budget budget = rest();
    if (budget.evaluations) *budget.evaluations /= 5 * starts.size();
    if (budget.seconds) *budget.seconds /= threads_ > 1 ? 5 : 5 * static_cast<double>(starts.size());
    std::vector<std::optional<Ordered>> answers(starts.size());
    parallel_for(threads_, starts.size(), [&](std::size_t i) {
      if (!is_mine(team_, i)) return;
      answers[i] = multilevel_search(grounds[i]->problem, starts[i].schedule.placement, budget,
                                     Random::stream(options_.seed, kStreams + i), options_.stop);
      if (answers[i]) answers[i]->schedule.rewrites = starts[i].schedule.rewrites;
    });
    share_values(team_, answers);
    for (auto& answer : answers) {
      if (!answer) continue;
      evaluations_ += answer->evaluations;
      found_.push_back(std::move(*answer));
    }
    sort_by(found_, &Ordered::outcome);
    report();
  }
  static constexpr std::uint64_t kStreams = 1'000'000;  // first random stream beyond those of the islands

  /// Step 8: successive halving (Jamieson and Talwalkar 2016). The runners' orders place moved ops by themselves, and
  /// their heat is low, so that they soon show how far they get. Islands do not start from the runners' schedules,
  /// because a descent would keep them in the same local optimum.
  void race() {
    std::vector<Ordered> runners = contenders();
    std::vector<std::unique_ptr<Island>> islands(runners.size());
    std::vector<std::pair<const SearchGround*, Schedule>> starts;
    if (runners.size() > 1)
      for (const Ordered& each : runners) starts.emplace_back(&ground_of(each.schedule), ordered_by_itself(each));
    for (Ordered& each : runners) each.evaluations = 0;
    const Budget all = rest();
    std::vector<std::size_t> running(runners.size());
    std::iota(running.begin(), running.end(), std::size_t{0});
    const auto rungs = static_cast<std::size_t>(std::bit_width(runners.size() - 1));
    for (; running.size() > 1; running.resize((running.size() + 1) / 2)) {
      const std::size_t parts = kRaced * rungs;
      Budget slice;
      if (all.evaluations) slice.evaluations = *all.evaluations / (parts * running.size());
      if (all.seconds) slice.seconds = *all.seconds / static_cast<double>(parts * turns_of(running.size()));
      parallel_for(threads_, running.size(), [&](std::size_t turn) {
        const std::size_t i = running[turn];
        if (!is_mine(team_, i)) return;
        const auto& [ground, start] = starts[i];
        std::unique_ptr<Island>& island = islands[i];
        if (!island) island = std::make_unique<Island>(*ground, start, Random::stream(options_.seed, 2 * kStreams + i));
        island->run(slice, options_.stop, kCold);
        runners[i].evaluations = island->evaluations();
        if (island->best_outcome() >= runners[i].outcome) return;
        runners[i].outcome = island->best_outcome();
        runners[i].schedule = island->best();
        runners[i].schedule.rewrites = ground->problem.rewrites();
      });
      share_values(team_, runners);
      sort_by(running, [&](std::size_t i) { return runners[i].outcome; });
    }
    for (const Ordered& each : runners) evaluations_ += each.evaluations;
    const Ordered& first = runners[running.front()];
    const auto winner = std::ranges::find_if(found_, [&](const Ordered& each) { return alike(each, first); });
    raced_ = std::min(first, found_.front(), [](const Ordered& a, const Ordered& b) { return a.outcome < b.outcome; });
    std::rotate(found_.begin(), winner, winner + 1);
    report();
  }

  /// Step 9: runs the islands in rounds, with falling heat.
  void improve() {
    start_islands();
    const std::uint64_t before = evaluations_;
    const Budget all = rest();
    std::size_t rounds = kRounds;
    if (all.evaluations)
      rounds = std::clamp<std::size_t>(*all.evaluations / (kLeastSlice * islands_.size()), 1, kRounds);
    for (std::size_t round = 0; round < rounds && may_improve() && !effort_.over(evaluations_); ++round) {
      const double cooled = rounds == 1 ? 1 : static_cast<double>(round) / static_cast<double>(rounds - 1);
      const double heat = kHot * portable_exp(cooled * portable_log(kCold / kHot));
      const std::optional<double> left = effort_.seconds_left();
      parallel_for(threads_, islands_.size(), [&](std::size_t i) {
        if (!islands_[i]) return;
        Budget slice;
        if (all.evaluations)
          slice.evaluations = share_of(share_of(*all.evaluations, round, rounds), i, islands_.size());
        // A thread runs several islands one after the other, so each island has its share of the round's time.
        if (left) slice.seconds = slice_seconds(*left, rounds - round, islands_.size());
        islands_[i]->run(slice, options_.stop, heat);
      });
      read_standings();
      evaluations_ = before + retired_;
      for (const Standing& standing : standings_) evaluations_ += standing.best.evaluations;
      collect();
      report();
      if (round + 1 < rounds && round % 2 == 1) restart_last(round);
    }
  }

  /// Whether a graph of the islands may have a better schedule, by its lower bound.
  bool may_improve() {
    return std::ranges::any_of(standings_, [&](const Standing& standing) {
      return Outcome{Bytes{0}, standing.ground->bound} < leader().outcome;
    });
  }

  /// Whether a large graph has time for so few evaluations that preparing them (SearchGround) would take longer.
  bool too_late_to_search() const {
    return options_.budget.seconds && is_large(base()) && *effort_.seconds_left() < kFewEvaluations * evaluation_;
  }
  static constexpr double kFewEvaluations = 32;

  /// Measured seconds of a full simulation of the best schedule, whose graph `problem` is.
  double seconds_of_evaluation(const Problem& problem) const {
    const Clock::time_point start = Clock::now();
    Evaluator{problem}.outcome(found_.front().schedule);
    return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
  }

  /// The rest of the budget.
  Budget rest() const {
    Budget budget{.seconds = effort_.seconds_left()};
    if (const std::uint64_t left = effort_.left(evaluations_); left < Effort::kUnlimited) budget.evaluations = left;
    return budget;
  }

  /// Share i of `all` split evenly into `parts`; the shares add up to `all`.
  static std::uint64_t share_of(std::uint64_t all, std::size_t i, std::size_t parts) {
    return all * (i + 1) / parts - all * i / parts;
  }

  /// An island's seconds if `left` seconds are shared evenly by `rounds` rounds. An island that ends early leaves more
  /// to the others.
  double slice_seconds(double left, std::size_t rounds, std::size_t islands) const {
    return left / static_cast<double>(rounds * turns_of(islands));
  }
  /// Turns that the threads need to run this many islands.
  std::size_t turns_of(std::size_t islands) const { return (islands + threads_ - 1) / threads_; }

  /// The problem with the schedule's rewrites. Throws OutOfTime if it is not made in time.
  Problem graph_in_time(const Schedule& schedule) const {
    return scheduled_problem(base(), schedule,
                             Checkpoint{[this] { return options_.budget.seconds && effort_.late(); }});
  }

  /// The problem with the schedule's rewrites and its search data, made on first use.
  const SearchGround& ground_of(const Schedule& schedule) {
    for (const SearchGround& ground : grounds_)
      if (ground.problem.rewrites() == schedule.rewrites) return ground;
    return grounds_.emplace_back(graph_in_time(schedule));
  }

  /// Starts islands from the best schedule, and from the best ones on contenders' graphs that differ from all before.
  /// Each start is made strict if that is no worse, since small changes are simulated fastest there. The last island
  /// has an order that gives a moved op its position by itself.
  void start_islands() {
    const std::vector<Ordered> graphs = contenders();
    std::vector<std::pair<const SearchGround*, Schedule>> starts;
    std::vector<const Ordered*> chosen;
    const std::size_t count = useful_islands(), found = std::max<std::size_t>(count, 2) - 1;
    for (const Ordered& each : found_) {
      if (chosen.size() == found) break;
      if (std::ranges::any_of(graphs, [&](const Ordered& other) { return alike(each, other); }) &&
          std::ranges::all_of(chosen, [&](const Ordered* other) { return differ(each, *other); }))
        chosen.push_back(&each);
    }
    for (const Ordered* each : chosen) starts.emplace_back(&ground_of(each->schedule), strict_if_no_worse(*each));
    while (starts.size() < found) starts.push_back(starts.front());
    if (count > found) starts.emplace_back(starts.front().first, ordered_by_itself(*chosen.front()));
    islands_.resize(starts.size());
    for (const auto& start : starts) standings_.push_back({start.first});
    deal_islands();
    parallel_for(threads_, islands_.size(), [&](std::size_t i) {
      if (owns(i))
        islands_[i] = std::make_unique<Island>(*starts[i].first, starts[i].second, Random::stream(options_.seed, i));
    });
  }

  /// The number of islands that can each look kLooks times at all moves of one op to another device, but at least one:
  /// the effort of an island with less is better given to the others. Under a budget in seconds, evaluations are
  /// counted in full simulations, and there is an island for each thread.
  std::size_t useful_islands() {
    const Problem& problem = ground_of(found_.front().schedule).problem;
    const std::uint64_t moves = problem.op_count() * std::max<std::size_t>(problem.device_count() - 1, 1);
    const std::uint64_t most = std::max<std::size_t>(island_count_, 1);
    std::uint64_t left = effort_.left(evaluations_), least = 1;
    if (const std::optional<double> seconds = effort_.seconds_left()) {
      left = std::min(left, static_cast<std::uint64_t>(*seconds * threads_ / seconds_of_evaluation(problem)));
      least = std::min<std::uint64_t>(threads_, most);
    }
    return static_cast<std::size_t>(std::clamp(left / (kLooks * moves), least, most));
  }

  /// A start on the graph of this schedule, with an order that places moved ops by itself. It is the schedule's
  /// placement under fifo, or the best placement found on that graph under priorities by upward rank, whichever is
  /// better.
  Schedule ordered_by_itself(const Ordered& of) {
    const Problem& problem = ground_of(of.schedule).problem;
    Evaluator evaluator{problem};
    Schedule best{.placement = of.schedule.placement};
    Outcome least = evaluator.outcome(best);
    ++evaluations_;
    Schedule ranked{.placement = {}, .policy = Policy::priority};
    ranked.priority = rank_priorities(problem);
    for (const Ordered& each : found_) {
      if (!alike(each, of)) continue;
      ranked.placement = each.schedule.placement;
      const Outcome outcome = evaluator.outcome(ranked);
      ++evaluations_;
      if (outcome >= least) continue;
      least = outcome;
      best = ranked;
    }
    best.rewrites = of.schedule.rewrites;
    return best;
  }

  void read_standings() {
    for (std::size_t i = 0; i < islands_.size(); ++i)
      if (islands_[i])
        standings_[i].best = {islands_[i]->best(), islands_[i]->best_outcome(), islands_[i]->evaluations()};
    share_values(team_, standings_, [&](std::size_t i) { return owns(i); });
  }

  /// Whether this rank searches the island. Islands on the largest graphs are dealt first, each to the rank with the
  /// fewest ops so far.
  bool owns(std::size_t island) const { return team_ == nullptr || owner_[island] == team_->rank(); }
  void deal_islands() {
    if (team_ == nullptr) return;
    std::vector<std::size_t> turns(standings_.size()), load(team_->count());
    std::iota(turns.begin(), turns.end(), std::size_t{0});
    const auto ops = [&](std::size_t i) { return standings_[i].ground->problem.op_count(); };
    sort_by_descending(turns, ops);
    owner_.resize(turns.size());
    for (const std::size_t i : turns) {
      owner_[i] = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
      load[owner_[i]] += ops(i);
    }
  }

  /// The schedule as a strict one, or as it is if that would be longer: under strict orders links are fifo, while
  /// priorities apply to transfers too.
  Schedule strict_if_no_worse(const Ordered& each) {
    if (each.schedule.policy == Policy::strict) return each.schedule;
    const Problem& problem = ground_of(each.schedule).problem;
    Schedule strict = in_started_order(problem, each.schedule.placement, Simulation{problem}.timeline(each.schedule));
    strict.rewrites = each.schedule.rewrites;
    ++evaluations_;
    return Evaluator{problem}.outcome(strict) > each.outcome ? each.schedule : strict;
  }

  static bool alike(const Ordered& one, const Ordered& other) {
    return one.schedule.rewrites == other.schedule.rewrites;
  }
  /// Whether the two schedules place ops worth at least kAlike of the total op time on different devices. Schedules
  /// with different rewrites always differ.
  bool differ(const Ordered& one, const Ordered& other) {
    if (!alike(one, other)) return true;
    const Problem& problem = ground_of(one.schedule).problem;
    double all = 0, elsewhere = 0;
    for (const OpId op : problem.ops()) {
      const auto time = static_cast<double>(problem.shortest(op).count);
      all += time;
      if (one.schedule.placement[op] != other.schedule.placement[op]) elsewhere += time;
    }
    return all > 0 && elsewhere / all >= kAlike;
  }

  void collect() {
    for (const Standing& standing : standings_) {
      if (standing.best.outcome >= found_.front().outcome) continue;
      found_.front() = standing.best;
      found_.front().schedule.rewrites = standing.ground->problem.rewrites();
    }
  }

  /// The island with the worst schedule continues from the best one (a single island from its own best); the others go
  /// on from where they are.
  void restart_last(std::size_t round) {
    const auto outcome = [](const Standing& standing) { return standing.best.outcome; };
    const auto best = std::ranges::min_element(standings_, {}, outcome);
    const auto worst = std::ranges::max_element(standings_, {}, outcome);
    if (outcome(*worst) <= outcome(*best) && islands_.size() > 1) return;
    std::unique_ptr<Island>& last = islands_[static_cast<std::size_t>(worst - standings_.begin())];
    if (worst->ground == best->ground) {
      if (last) last->restart(best->best.schedule);
      return;
    }
    retired_ += worst->best.evaluations;
    worst->ground = best->ground;
    if (last)
      last = std::make_unique<Island>(*best->ground, best->best.schedule,
                                      Random::stream(options_.seed, island_count_ * (round + 1)));
  }

  /// Lower bound for the graph of the best schedule. Other splits may allow less, but are not searched.
  Nanoseconds bound() { return ground_of(leader().schedule).bound; }

  void report() {
    if (!options_.on_progress) return;
    const Outcome best = leader().outcome;
    options_.on_progress({best.makespan, best.excess.count == 0, bound(), evaluations_});
  }

  const std::span<const Placer> members_;
  const PlaceOptions& options_;
  Team* const team_;
  const std::size_t island_count_;
  Effort effort_;
  const unsigned threads_;
  const Problem& problem_;
  std::list<SearchGround> grounds_;               // the original problem first, then rewritten ones
  std::vector<Ordered> found_;                    // by outcome, after the race its winner first; with rewrites
  std::optional<Ordered> raced_;                  // the best at the end of the race
  std::vector<std::unique_ptr<Island>> islands_;  // null if another rank of the team searches it
  std::vector<Standing> standings_;               // of each island, after a round
  std::vector<std::size_t> owner_;                // the rank of each island; empty without a team
  std::optional<PlanBound> plan_bound_;           // from the placer `plan`
  Nanoseconds proven_{};                          // lower bound from branch and bound; 0: none
  double evaluation_ = 0;                         // longest simulation of a member's schedule, in s
  std::uint64_t evaluations_ = 0, retired_ = 0;
};

}  // namespace

Budget usual_budget(const Problem& problem) {
  const std::uint64_t ops = problem.op_count();
  const std::uint64_t of_each = ops <= 32 ? 4'000 : 1'000;  // optimality may be proven
  return {.evaluations = std::max(kLeastEvaluations, std::min(kUsualOps / ops, of_each * ops))};
}

Schedule auto_place(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options,
                    std::size_t islands) {
  if (options.objective == Objective::max_load) return auto_load(problem, members, options);
  if (options.objective == Objective::completion) return auto_completion(problem, members, options);
  return AutoPlacer{problem, members, options, islands}.run();
}

}  // namespace trainyard
