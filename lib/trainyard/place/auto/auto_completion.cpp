#include "trainyard/place/auto/auto_completion.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/bound/completion.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/evaluator.hpp"
#include "trainyard/place/groups.hpp"
#include "trainyard/place/talos/talos.hpp"
#include "trainyard/simulate/completion.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/transform/models.hpp"

namespace trainyard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWalks = 4, kRounds = 12;
constexpr std::size_t kMemory = 64;  // of late acceptance, in evaluations

struct Completed {
  Schedule schedule;  // with its splits
  CompletionOutcome outcome;
};

/// A graph that is searched: the problem's own, or one with splits.
struct Ground {
  Ground(const Problem& base, const Schedule& schedule)
      : problem(scheduled_problem(base, schedule)),
        models(find_models(problem.graph())),
        bound(completion_bound(problem, models)),
        able(group_devices(problem)) {}

  Problem problem;
  Models models;
  Nanoseconds bound;
  CompressedRows<GroupId, DeviceId> able;
};

/// Schedules of one problem by their completions; allocates nothing after the first. One per thread.
class CompletionEvaluator {
 public:
  CompletionEvaluator(const Problem& problem, const Models& models) : models_(models), simulation_(problem) {}

  CompletionOutcome outcome(const Schedule& schedule) {
    const MemoryPeaks& peaks = simulation_.peaks(schedule);
    completion_times(models_, simulation_.spans(), ends_);
    Nanoseconds total{0};
    for (const Nanoseconds end : ends_) total += end;
    return {peaks.fits ? Bytes{0} : excess_of(simulation_.problem(), peaks), total};
  }
  // --- of the last schedule ---
  const IdMap<ModelId, Nanoseconds>& ends() const { return ends_; }
  /// All ops by their starts.
  std::vector<OpId> by_start() const {
    const IdMap<OpId, Span>& spans = simulation_.spans();
    std::vector<OpId> order;
    for (const OpId op : spans.ids()) order.push_back(op);
    std::ranges::stable_sort(order, {}, [&](OpId op) { return spans[op].start; });
    return order;
  }

 private:
  const Models& models_;
  Simulation simulation_;
  IdMap<ModelId, Nanoseconds> ends_;
};

/// Priorities that take the ops in this order.
void set_priorities(const std::vector<OpId>& order, IdMap<OpId, double>& priority) {
  priority.assign(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) priority[order[i]] = static_cast<double>(order.size() - i);
}

/// The same placement.
Schedule in_order(const Schedule& other, const std::vector<OpId>& order) {
  Schedule schedule{.placement = other.placement, .policy = Policy::priority, .splits = other.splits};
  set_priorities(order, schedule.priority);
  return schedule;
}

/// A walk over placements, and orders as priorities.
class Walk {
 public:
  Walk(const Ground& ground, const Completed& start, Random random)
      : problem_(ground.problem),
        models_(ground.models),
        able_(ground.able),
        evaluator_(problem_, models_),
        random_(random) {
    for (std::size_t g = 0; g < problem_.group_count(); ++g)
      if (able_[GroupId{g}].size() > 1) movable_.emplace_back(g);
    restart(start);
  }

  void restart(const Completed& start) {
    best_ = now_ = start;
    evaluator_.outcome(start.schedule);
    order_ = evaluator_.by_start();
    // Priorities by the starts are not quite the order that there was.
    now_.schedule = in_order(start.schedule, order_);
    next_.schedule = now_.schedule;
    now_.outcome = evaluator_.outcome(now_.schedule);
    ++evaluations_;
    keep();
    late_.assign(kMemory, now_.outcome);
  }

  template <class Over>
  void run(std::uint64_t evaluations, const Over& over) {
    for (std::uint64_t i = 0; i < evaluations && !over(); ++i) {
      // As much is copied as a simulation reads: of an order only where it changes.
      next_.schedule.placement = now_.schedule.placement;
      const bool ordered = propose(next_.schedule);
      next_.outcome = evaluator_.outcome(next_.schedule);
      CompletionOutcome& late = late_[evaluations_++ % kMemory];
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

  /// Whether the order changes: it is in next_order_ then.
  bool propose(Schedule& next) {
    const std::size_t what = random_.below(10);
    if (what < 6 && !movable_.empty()) {
      const GroupId group = movable_[random_.below(movable_.size())];
      const auto devices = able_[group];
      move(next, group, devices[random_.below(devices.size())]);
      return false;
    }
    if (what == 6 && !movable_.empty()) {
      const ModelId model{random_.below(models_.size())};
      const DeviceId to{random_.below(problem_.device_count())};
      for (const GroupId group : movable_)
        if (models_.of[problem_.group_ops(group).front()] == model && std::ranges::binary_search(able_[group], to))
          move(next, group, to);
      return false;
    }
    if (what <= 8 && models_.size() > 1) {
      const ModelId first{random_.below(models_.size())};
      const ModelId second{random_.below(models_.size())};
      put_before(first, second);
    } else {
      const std::size_t from = random_.below(order_.size());
      const std::size_t to = random_.below(order_.size());
      next_order_ = order_;
      const auto begin = next_order_.begin();
      const auto offset = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
      if (from < to)
        std::rotate(begin + offset(from), begin + offset(from) + 1, begin + offset(to) + 1);
      else
        std::rotate(begin + offset(to), begin + offset(from), begin + offset(from) + 1);
    }
    set_priorities(next_order_, next.priority);
    return true;
  }

  /// One model's ops all before those of another, which keep their places.
  void put_before(ModelId first, ModelId second) {
    const auto at = std::ranges::find(order_, second, [&](OpId op) { return models_.of[op]; });
    next_order_.assign(order_.begin(), at);
    for (auto it = at; it != order_.end(); ++it)
      if (models_.of[*it] == first) next_order_.push_back(*it);
    for (auto it = at; it != order_.end(); ++it)
      if (models_.of[*it] != first) next_order_.push_back(*it);
  }

  void move(Schedule& schedule, GroupId group, DeviceId to) const {
    for (const OpId op : problem_.group_ops(group)) schedule.placement[op] = to;
  }

  const Problem& problem_;
  const Models& models_;
  const CompressedRows<GroupId, DeviceId>& able_;
  CompletionEvaluator evaluator_;
  Random random_;
  std::vector<GroupId> movable_;
  Completed now_, best_, next_;           // the last with the present one's order, but while it is tried
  std::vector<OpId> order_, next_order_;  // most urgent first
  std::vector<CompletionOutcome> late_;
  std::uint64_t evaluations_ = 0;
};

class AutoCompletion {
 public:
  AutoCompletion(const Problem& problem, const PlaceOptions& options)
      : problem_(problem),
        options_(options),
        budget_(options.budget.given() ? options.budget : usual_budget(problem)) {}

  Schedule run() {
    if (problem_.op_count() == 0) return {};
    ask();
    report();
    if (!over() && !done()) improve();
    Completed& best = found_.front();
    best.schedule.plan.reset();
    best.schedule.search = Search{evaluations_, std::nullopt};
    return std::move(best.schedule);
  }

 private:
  void ask() {
    const auto member = [&](const Placer& placer) { return is_member(placer, problem_); };
    found_ = ask_members(
        problem_, options_, member, [&] { return over(); },
        [&](Schedule schedule) -> std::optional<Completed> {
          if (!options_.splits && !schedule.splits.empty()) return std::nullopt;
          const Problem problem = scheduled_problem(problem_, schedule);
          return best_of_orders(problem, std::move(schedule));
        });
    evaluations_ += 2 * found_.size();
    std::ranges::stable_sort(found_, {}, &Completed::outcome);
  }

  /// The schedule, or its placement with the model that ends first first, whichever is better.
  static Completed best_of_orders(const Problem& problem, Schedule schedule) {
    const Models models = find_models(problem.graph());
    CompletionEvaluator evaluator{problem, models};
    const CompletionOutcome outcome = evaluator.outcome(schedule);
    const auto& ends = evaluator.ends();
    std::vector<OpId> order = evaluator.by_start();
    std::ranges::stable_sort(order, {}, [&](OpId op) { return ends[models.of[op]]; });
    Schedule other = in_order(schedule, order);
    const CompletionOutcome of_other = evaluator.outcome(other);
    return of_other < outcome ? Completed{std::move(other), of_other} : Completed{std::move(schedule), outcome};
  }

  void improve() {
    std::vector<std::optional<Walk>> walks(kWalks);
    const std::vector<Completed> starts(found_.begin(),
                                        found_.begin() + static_cast<std::ptrdiff_t>(std::min(kWalks, found_.size())));
    for (const Completed& start : starts) ground_of(start.schedule);  // before threads ask for them
    std::uint64_t retired = 0;
    const unsigned threads = thread_count(options_.threads);
    const std::uint64_t before = evaluations_;
    const std::uint64_t left = !budget_.evaluations                  ? kNoLimit
                               : *budget_.evaluations > evaluations_ ? *budget_.evaluations - evaluations_
                                                                     : 0;
    for (std::size_t round = 0; round < kRounds && !over() && !done(); ++round) {
      const std::uint64_t each = left == kNoLimit ? kNoLimit : left / (kWalks * kRounds) + 1;
      parallel_for(threads, kWalks, [&](std::size_t i) {
        if (!walks[i]) {
          const Completed& start = starts[i % starts.size()];
          walks[i].emplace(ground_of(start.schedule), start, Random::stream(options_.seed, i));
        }
        // Threads take walks one after the other: each has its share of what is left of the time.
        const auto begin = Clock::now();
        const double turns = static_cast<double>((kRounds - round) * ((kWalks + threads - 1) / threads));
        const double mine = budget_.seconds ? std::max(0.0, *budget_.seconds - seconds_since(start_)) / turns : 0;
        walks[i]->run(each, [&] {
          return (options_.stop && options_.stop()) || (budget_.seconds && seconds_since(begin) >= mine);
        });
      });
      evaluations_ = before;
      evaluations_ += retired;
      for (const auto& walk : walks) evaluations_ += walk->evaluations();
      std::size_t last = 0;
      for (std::size_t i = 0; i < kWalks; ++i) {
        if (walks[i]->best().outcome < found_.front().outcome) found_.front() = walks[i]->best();
        if (walks[i]->best().outcome > walks[last]->best().outcome) last = i;
      }
      if (walks[last]->best().outcome > found_.front().outcome) {
        const Ground& ground = ground_of(found_.front().schedule);
        if (&walks[last]->problem() == &ground.problem) {
          walks[last]->restart(found_.front());
        } else {
          retired += walks[last]->evaluations();
          walks[last].emplace(ground, found_.front(), Random::stream(options_.seed, kWalks * (round + 1)));
        }
      }
      report();
    }
  }

  static constexpr std::uint64_t kNoLimit = static_cast<std::uint64_t>(-1) / 2;

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  bool over() const {
    return (options_.stop && options_.stop()) || (budget_.seconds && seconds_since(start_) >= *budget_.seconds) ||
           (budget_.evaluations && evaluations_ >= *budget_.evaluations);
  }
  const Ground& ground_of(const Schedule& schedule) {
    for (const Ground& ground : grounds_)
      if (ground.problem.splits() == schedule.splits) return ground;
    return grounds_.emplace_back(problem_, schedule);
  }
  /// Of the best schedule's own graph.
  Nanoseconds bound() { return ground_of(found_.front().schedule).bound; }
  bool done() { return found_.front().outcome <= CompletionOutcome{Bytes{0}, bound()}; }

  void report() {
    if (!options_.on_progress) return;
    const CompletionOutcome& best = found_.front().outcome;
    options_.on_progress({best.total, best.excess.count == 0, bound(), evaluations_});
  }

  const Problem& problem_;
  const PlaceOptions& options_;
  const Budget budget_;
  std::list<Ground> grounds_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Completed> found_;  // by outcome
  std::uint64_t evaluations_ = 0;
};

}  // namespace

Schedule auto_completion(const Problem& problem, const PlaceOptions& options) {
  return AutoCompletion{problem, options}.run();
}

}  // namespace trainyard
