#include "trainyard/place/auto/auto_completion.hpp"

#include <algorithm>
#include <cstddef>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/bound/completion.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/graph/topological_order.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/judge/completion_evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/schedule_archive.hpp"
#include "trainyard/place/kit/successors.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/models.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kWalks = 4, kCompletionRounds = 12;
constexpr std::size_t kHistory = 64;  // evaluations that late acceptance looks back

struct Completed {
  Schedule schedule;  // with its rewrites
  CompletionOutcome outcome;
};
template <class Archive>
void archive_fields(Archive& archive, Completed& completed) {
  archive(completed.schedule, completed.outcome);
}

/// A graph that is searched: the problem's own, or a rewritten one.
struct Ground {
  Ground(const Problem& base, const Schedule& schedule)
      : problem(scheduled_problem(base, schedule)),
        models(find_models(problem.graph())),
        bound(completion_bound(problem, models)),
        able(group_devices(problem)) {}

  Problem problem;
  Models models;
  Nanoseconds bound;
  AbleDevices able;
};

/// Sets priorities that take the ops in this order.
void set_priorities(const std::vector<OpId>& order, IdMap<OpId, double>& priority) {
  priority.assign(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) priority[order[i]] = static_cast<double>(order.size() - i);
}

/// Sets each device's ops in this order.
void set_device_orders(const std::vector<OpId>& order, const Placement& placement,
                       IdMap<DeviceId, std::vector<OpId>>& orders) {
  for (std::vector<OpId>& ops : orders) ops.clear();
  for (const OpId op : order) orders[placement[op]].push_back(op);
}

/// The schedule's placement, with priorities that take the ops in this order.
Schedule in_order(const Schedule& other, const std::vector<OpId>& order) {
  Schedule schedule{.placement = other.placement, .policy = Policy::priority, .rewrites = other.rewrites};
  set_priorities(order, schedule.priority);
  return schedule;
}

/// Late acceptance over placements and orders: a change is accepted if it is no worse than the current schedule, or
/// than the one that was current kHistory evaluations ago. Orders are priorities, under which no device idles while an
/// op is ready, or strict, so that a device can wait for a more urgent op. A strict order keeps every op behind its
/// predecessors.
class LateAcceptance {
 public:
  LateAcceptance(const Ground& ground, const Completed& start, Policy policy, Random random)
      : problem_(ground.problem),
        models_(ground.models),
        able_(ground.able),
        policy_(policy),
        evaluator_(problem_, models_),
        random_(random) {
    for (const GroupId group : problem_.groups())
      if (able_[group].size() > 1) movable_.push_back(group);
    restart(start);
  }

  void restart(const Completed& start) {
    best_ = now_ = start;
    evaluator_.outcome(start.schedule);
    order_ = evaluator_.by_start();
    // Priorities by start times do not reproduce the given order exactly.
    now_.schedule = in_order(start.schedule, order_);
    if (policy_ == Policy::strict) {
      keep_dependencies(order_);
      now_.schedule.policy = Policy::strict;
      now_.schedule.priority = {};
      now_.schedule.order.assign(problem_.device_count(), {});
      set_device_orders(order_, now_.schedule.placement, now_.schedule.order);
    }
    next_.schedule = now_.schedule;
    now_.outcome = evaluator_.outcome(now_.schedule);
    ++evaluations_;
    keep();
    late_.assign(kHistory, now_.outcome);
  }

  void run(const Effort& effort) {
    for (std::uint64_t i = 0; !effort.over(i); ++i) {
      // Copies only what a simulation reads, and an order only if it changes.
      next_.schedule.placement = now_.schedule.placement;
      const bool ordered = propose(next_.schedule);
      if (policy_ == Policy::strict)
        set_device_orders(ordered ? next_order_ : order_, next_.schedule.placement, next_.schedule.order);
      next_.outcome = evaluator_.outcome(next_.schedule);
      CompletionOutcome& late = late_[evaluations_++ % kHistory];
      if (next_.outcome <= now_.outcome || next_.outcome <= late) {
        std::swap(now_, next_);
        if (ordered) {
          order_.swap(next_order_);
          next_.schedule.priority = now_.schedule.priority;
        }
        keep();
      } else if (ordered) {
        next_.schedule.priority = now_.schedule.priority;
      }
      late = now_.outcome;
    }
  }

  const Problem& problem() const { return problem_; }
  const Completed& best() const { return best_; }
  std::uint64_t evaluations() const { return evaluations_; }

 private:
  void keep() {
    if (now_.outcome < best_.outcome) best_ = now_;
  }

  /// Proposes a change. Returns whether the order changes; it is in next_order_ then. For strict orders several changes
  /// are sometimes made at once, because a placement and the wait that it pays for are each worse on their own.
  bool propose(Schedule& next) {
    bool ordered = change(next, false);
    while (policy_ == Policy::strict && random_.below(4) == 0) ordered = change(next, ordered);
    if (!ordered) return false;
    if (policy_ == Policy::strict)
      keep_dependencies(next_order_);
    else
      set_priorities(next_order_, next.priority);
    return true;
  }

  /// Changes the placement or next_order_. Returns whether next_order_ is set.
  bool change(Schedule& next, bool ordered) {
    const std::size_t what = random_.below(10);
    if (what < 6 && !movable_.empty()) {
      const GroupId group = movable_[random_.below(movable_.size())];
      const auto devices = able_[group];
      move(next, group, devices[random_.below(devices.size())]);
      return ordered;
    }
    if (what == 6 && !movable_.empty()) {
      const ModelId model{random_.below(models_.size())};
      const DeviceId to{random_.below(problem_.device_count())};
      for (const GroupId group : movable_)
        if (models_.of[problem_.group_ops(group).front()] == model && std::ranges::binary_search(able_[group], to))
          move(next, group, to);
      return ordered;
    }
    if (!ordered) next_order_ = order_;
    if (what <= 8 && models_.size() > 1) {
      const ModelId first{random_.below(models_.size())};
      const ModelId second{random_.below(models_.size())};
      put_before(first, second);
    } else {
      const std::size_t from = random_.below(order_.size());
      const std::size_t to = random_.below(order_.size());
      const auto begin = next_order_.begin();
      const auto offset = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
      if (from < to)
        std::rotate(begin + offset(from), begin + offset(from) + 1, begin + offset(to) + 1);
      else
        std::rotate(begin + offset(to), begin + offset(from), begin + offset(from) + 1);
    }
    return true;
  }

  /// Makes the order topological: an op that stands before a predecessor moves behind its last predecessor.
  void keep_dependencies(std::vector<OpId>& order) const {
    IdMap<OpId, std::size_t> position(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
    order = topological_order<OpId>(order.size(), successors_in(problem_.graph()),
                                    [&](OpId a, OpId b) { return position[a] < position[b]; });
  }

  /// Moves all ops of `first` before those of `second`; otherwise the order stays.
  void put_before(ModelId first, ModelId second) {
    const auto at = std::ranges::find(next_order_, second, [&](OpId op) { return models_.of[op]; });
    std::stable_partition(at, next_order_.end(), [&](OpId op) { return models_.of[op] == first; });
  }

  void move(Schedule& schedule, GroupId group, DeviceId to) const {
    for (const OpId op : problem_.group_ops(group)) schedule.placement[op] = to;
  }

  const Problem& problem_;
  const Models& models_;
  const AbleDevices& able_;
  const Policy policy_;
  CompletionEvaluator evaluator_;
  Random random_;
  std::vector<GroupId> movable_;
  Completed now_, best_, next_;           // next_ has now_'s order, except during a trial
  std::vector<OpId> order_, next_order_;  // most urgent first
  std::vector<CompletionOutcome> late_;
  std::uint64_t evaluations_ = 0;
};

class AutoCompletion {
 public:
  AutoCompletion(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options)
      : problem_(problem),
        members_(members),
        options_(options),
        effort_(options.budget.given() ? options.budget : usual_budget(problem), options.stop) {}

  Schedule run() {
    ask();
    report();
    if (!effort_.over(evaluations_) && !done()) improve();
    Completed& best = found_.front();
    best.schedule.plan.reset();
    best.schedule.search = Search{evaluations_, std::nullopt};
    return std::move(best.schedule);
  }

 private:
  void ask() {
    found_ = ask_members(
        problem_, members_, options_, [&](Waiting) { return effort_.late(); },
        [&](Schedule schedule) -> std::optional<Completed> {
          if (!options_.rewrites && !schedule.rewrites.empty()) return std::nullopt;
          const Problem problem = scheduled_problem(problem_, schedule);
          check_schedule(problem, schedule);
          return best_of_orders(problem, std::move(schedule));
        },
        options_.budget.seconds);
    evaluations_ += 2 * found_.size();
    sort_by(found_, &Completed::outcome);
  }

  /// The schedule, or its placement with the ops of earlier ending models first, whichever is better.
  static Completed best_of_orders(const Problem& problem, Schedule schedule) {
    const Models models = find_models(problem.graph());
    CompletionEvaluator evaluator{problem, models};
    const CompletionOutcome outcome = evaluator.outcome(schedule);
    const auto& ends = evaluator.ends();
    std::vector<OpId> order = evaluator.by_start();
    sort_by(order, [&](OpId op) { return ends[models.of[op]]; });
    Schedule other = in_order(schedule, order);
    const CompletionOutcome of_other = evaluator.outcome(other);
    return of_other < outcome ? Completed{std::move(other), of_other} : Completed{std::move(schedule), outcome};
  }

  void improve() {
    std::vector<std::optional<LateAcceptance>> walks(kWalks);
    std::vector<Completed> starts;
    for (const Completed& each : found_)
      if (starts.size() < kWalks && !is_folded(each)) starts.push_back(each);
    if (starts.empty()) return;
    for (const Completed& start : starts) ground_of(start.schedule);  // made before threads use them
    std::uint64_t retired = 0;
    const unsigned threads = thread_count(options_.threads);
    const std::uint64_t before = evaluations_;
    const std::uint64_t left = effort_.left(evaluations_);
    for (std::size_t round = 0; round < kCompletionRounds && !effort_.over(evaluations_) && !done(); ++round) {
      parallel_for(threads, kWalks, [&](std::size_t i) {
        if (!walks[i]) {
          const Completed& start = starts[i % starts.size()];
          walks[i].emplace(ground_of(start.schedule), start, policy_of(i), Random::stream(options_.seed, i));
        }
        // A thread runs several walks one after the other, so each walk has its share of the time left.
        Budget mine{.seconds = effort_.seconds_left()};
        if (mine.seconds)
          *mine.seconds /= static_cast<double>((kCompletionRounds - round) * ((kWalks + threads - 1) / threads));
        if (left < Effort::kUnlimited) mine.evaluations = left / (kWalks * kCompletionRounds) + 1;
        walks[i]->run(Effort{mine, options_.stop});
      });
      evaluations_ = before;
      evaluations_ += retired;
      for (const auto& walk : walks) evaluations_ += walk->evaluations();
      std::size_t last = 0;
      for (std::size_t i = 0; i < kWalks; ++i) {
        if (walks[i]->best().outcome < found_.front().outcome) found_.front() = walks[i]->best();
        if (walks[i]->best().outcome > walks[last]->best().outcome) last = i;
      }
      if (walks[last]->best().outcome > found_.front().outcome && !is_folded(found_.front())) {
        const Ground& ground = ground_of(found_.front().schedule);
        if (&walks[last]->problem() == &ground.problem) {
          walks[last]->restart(found_.front());
        } else {
          retired += walks[last]->evaluations();
          walks[last].emplace(ground, found_.front(), policy_of(last),
                              Random::stream(options_.seed, kWalks * (round + 1)));
        }
      }
      report();
    }
  }

  /// On a folded graph, an op that moves takes the ops that it stands for to devices that do not exist.
  static bool is_folded(const Completed& of) { return folded(of.schedule.rewrites).devices > 1; }
  /// Strict orders for the last walk, priorities for the others.
  static Policy policy_of(std::size_t walk) { return walk + 1 < kWalks ? Policy::priority : Policy::strict; }
  const Ground& ground_of(const Schedule& schedule) {
    for (const Ground& ground : grounds_)
      if (ground.problem.rewrites() == schedule.rewrites) return ground;
    return grounds_.emplace_back(problem_, schedule);
  }
  /// Lower bound for the graph of the best schedule.
  Nanoseconds bound() { return ground_of(found_.front().schedule).bound; }
  bool done() { return found_.front().outcome <= CompletionOutcome{Bytes{0}, bound()}; }

  void report() {
    if (!options_.on_progress) return;
    const CompletionOutcome& best = found_.front().outcome;
    options_.on_progress({best.total, best.excess.count == 0, bound(), evaluations_});
  }

  const Problem& problem_;
  const std::span<const Placer> members_;
  const PlaceOptions& options_;
  const Effort effort_;
  std::list<Ground> grounds_;
  std::vector<Completed> found_;  // by outcome
  std::uint64_t evaluations_ = 0;
};

}  // namespace

Schedule auto_completion(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options) {
  return AutoCompletion{problem, members, options}.run();
}

}  // namespace trainyard
