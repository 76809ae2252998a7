#include "trainyard/plan/stage_degrees_search.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "trainyard/core/parallel.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/least_memory.hpp"
#include "trainyard/plan/plan_moves.hpp"
#include "trainyard/plan/stage_choices.hpp"
#include "trainyard/plan/stage_cost.hpp"
#include "trainyard/plan/stage_degrees_bound.hpp"

namespace trainyard {
namespace {

/// If a class has at most this many plans, all are run.
constexpr double kAllRun = 4096;
/// Otherwise: beam width per number of stages, first layer and devices left; complete plans run; plans improved.
constexpr std::size_t kBeam = 12, kRun = 48, kMended = 4;
constexpr std::size_t kClassesAtOnce = 4;  // classes searched between two updates of the incumbent

/// Search over the plans of one microbatch size and ZeRO stage.
class DegreesClass {
 public:
  explicit DegreesClass(StageDegreesBound bound) : bound_(std::move(bound)) {}

  Nanoseconds bound() const { return bound_.bound(); }
  void tighten(Nanoseconds limit) { bound_.tighten(limit); }
  /// After run(): whether every plan that takes less than the limit was evaluated.
  bool exact() const { return exact_; }

  /// The best plans found that fit, shortest first. Partial plans that cannot take less than `limit` are pruned.
  std::vector<RatedPlan> run(std::optional<Nanoseconds> limit, std::uint64_t& evaluations) {
    limit_ = limit.value_or(kLongestTime);
    all_ = exact_ = plans() <= kAllRun;
    chain_stages();
    std::vector<RatedPlan> found;
    sort_by(whole_, [&](std::size_t at) { return known_[at].estimate; });
    for (const std::size_t at : whole_) {
      if ((!all_ && found.size() == kRun) || stopped()) break;
      ParallelPlan plan = plan_of(at);
      if (options().allowed && !options().allowed(plan)) continue;
      found.push_back(rated(costs(), std::move(plan), evaluations));
    }
    known_ = {};
    whole_ = {};
    std::erase_if(found, [&](const RatedPlan& each) { return each.run.excess(costs().memory) > Bytes{0}; });
    sort(found);
    for (std::size_t i = 0; !all_ && i < std::min(kMended, found.size()); ++i) mend(found[i], evaluations);
    sort(found);
    return found;
  }

 private:
  /// Partial plan: the stages from one on.
  struct Partial {
    std::size_t begin, left, after;  // first layer; devices left; index of the plan without its first stage
    std::size_t choice;              // of the first stage, like `recompute`
    StageRecomputation recompute;
    Nanoseconds sum, most, tail;  // sum and maximum of stage times; time after the first stage's last backward pass
    Nanoseconds estimate;
    bool alike, shared;  // all stages have the same degrees; one has replicas
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// Number of choices of cuts and degrees; a double, since an integer could overflow.
  double plans() const {
    const std::size_t n = costs().layers, most = costs().devices;
    std::vector<double> ways((n + 1) * (most + 1), 0.0);
    ways[n * (most + 1) + most] = 1;
    double all = 0;
    for (std::size_t end = n; end > 0; --end)
      for (std::size_t left = 1; left <= most; ++left) {
        const double so_many = ways[end * (most + 1) + left];
        if (so_many == 0) continue;
        for (const StageChoice& choice : choices()) {
          if (choice.degrees.devices() > left) continue;
          for (std::size_t begin = 0; begin < end; ++begin)
            ways[begin * (most + 1) + left - choice.degrees.devices()] += so_many;
        }
      }
    for (std::size_t left = 0; left <= most; ++left) all += ways[left];
    return all;
  }

  const PlanCosts& costs() const { return bound_.costs(); }
  const PlanSearchOptions& options() const { return bound_.options(); }
  const std::vector<StageChoice>& choices() const { return bound_.choices(); }
  std::int64_t m() const { return bound_.microbatches(); }

  bool stopped() {
    const bool stop = options().stop && options().stop();
    exact_ = exact_ && !stop;
    return stop;
  }

  /// Builds known_ and whole_, stage by stage from the last one on.
  void chain_stages() {
    std::vector<std::vector<Partial>> next(costs().layers * (costs().devices + 1));
    extend({.begin = costs().layers, .left = costs().devices, .after = kNone, .alike = true}, kNone, 0, next);
    for (std::size_t behind = 1, from = 0;; ++behind) {
      collect(next, known_, whole_);
      const std::size_t to = known_.size();
      if (from == to || stopped()) return;
      for (; from < to; ++from)
        if (known_[from].begin > 0) extend(known_[from], from, behind, next);
    }
  }

  /// Adds to `next` each extension of a partial plan by a stage before it; the plan has `behind` stages.
  void extend(const Partial& plan, std::size_t at, std::size_t behind, std::vector<std::vector<Partial>>& next) {
    ParallelPlan around{
        .degrees = {{.data = 0}, {}}, .cuts = {1}, .microbatch = bound_.microbatch()};  // for transfers, sums
    if (behind > 0) {
      around.degrees.push_back(choices()[plan.choice].degrees);
      around.cuts.push_back(2);
    }
    for (std::size_t c = 0; c < choices().size(); ++c) {
      const StageChoice& choice = choices()[c];
      if (choice.degrees.devices() > plan.left) continue;
      const std::size_t left = plan.left - choice.degrees.devices();
      around.degrees[0].data = left;
      around.degrees[1] = choice.degrees;
      const StageTable& stages = choice.stages_from(left);  // assumes that all devices are used
      Nanoseconds forward{0}, backward{0};
      if (behind > 0) {
        const StageDegrees& after = choices()[plan.choice].degrees;
        forward = costs().transfer(
            around, 1, 2,
            sent_bytes(choice.stages->of(plan.begin - 1, plan.begin).output, choice.degrees.data, after.data));
        backward = costs().transfer(around, 2, 1,
                                    sent_bytes(choices()[plan.choice].stages->of(plan.begin, plan.begin + 1).input,
                                               after.data, choice.degrees.data));
      }
      const Nanoseconds slower = std::max(forward, backward);
      if (m() * slower >= limit_) continue;
      for (std::size_t begin = plan.begin; begin-- > 0;) {
        if (bound_.work(choice.stages->of(begin, plan.begin)) >= limit_) break;
        if (begin > 0 && left == 0) continue;
        const double rest = left > 0 ? bound_.work_before(begin) / static_cast<double>(left) : 0;
        if (rest >= static_cast<double>(limit_.count)) continue;
        const bool alike = plan.alike && (behind == 0 || plan.choice == c),
                   shared = plan.shared || choice.degrees.data > 1;
        if (begin == 0 && (alike || (bound_.zero() > 0 && !shared))) continue;
        const auto level = bound_.recompute(choice, begin, plan.begin, behind);
        if (!level) continue;
        if (bound_.work(choice.stages->of(begin, plan.begin, *level)) >= limit_) continue;
        const StageCost stage = stages.of(begin, plan.begin, *level);
        const Nanoseconds sum = plan.sum + stage.time() + forward + backward;
        Partial longer{begin, left, at, c, *level, sum, {}, {}, {}, alike, shared};
        longer.most = std::max({plan.most, stage.time(), slower});
        const auto in_flight = static_cast<std::int64_t>(behind + 1);
        if (m() > in_flight) longer.most = std::max(longer.most, Nanoseconds{longer.sum.count / in_flight});
        longer.tail = std::max(Nanoseconds{0}, plan.tail - stage.backward() - backward);
        const auto mean = static_cast<std::int64_t>(rest / static_cast<double>(m()));
        const auto estimate = [&] {
          return longer.sum + bound_.path_before(begin) + (m() - 1) * std::max(longer.most, Nanoseconds{mean}) +
                 longer.tail;
        };
        longer.estimate = estimate();
        std::vector<Partial>& beam = next[begin * (costs().devices + 1) + left];
        if (!all_ && beam.size() == kBeam && longer.estimate >= beam.back().estimate) continue;
        Nanoseconds end = stage.launches + costs().update(stage.weights, bound_.shards(choice.degrees).state,
                                                          costs().degree_of(around, 1).kind);
        if (choice.degrees.data > 1) end += costs().all_reduce(around, 1, stage.weights);
        longer.tail = std::max(longer.tail, end);
        longer.estimate = estimate();
        insert(beam, longer);
      }
    }
  }

  /// Inserts a partial plan in the order of estimates. Unless all are kept, only the best of each choice stays.
  void insert(std::vector<Partial>& beam, const Partial& plan) const {
    if (!all_) {
      const auto same = std::ranges::find(beam, plan.choice, &Partial::choice);
      if (same != beam.end() && same->estimate <= plan.estimate) return;
      if (same != beam.end()) beam.erase(same);
    }
    beam.insert(std::ranges::upper_bound(beam, plan.estimate, {}, &Partial::estimate), plan);
    if (!all_ && beam.size() > kBeam) beam.pop_back();
  }

  ParallelPlan plan_of(std::size_t at) const {
    ParallelPlan plan{.microbatch = bound_.microbatch(), .zero = bound_.zero()};
    for (; at != kNone; at = known_[at].after) {
      const Partial& each = known_[at];
      if (each.begin > 0) plan.cuts.push_back(each.begin);
      plan.degrees.push_back(choices()[each.choice].degrees);
      plan.recompute.push_back(each.recompute);
    }
    return plan;
  }

  static void sort(std::vector<RatedPlan>& plans) {
    sort_by(plans, [](const RatedPlan& each) { return each.run.step; });
  }

  const StageChoice& choice_of(const StageDegrees& degrees) const {
    return *std::ranges::find(choices(), degrees, &StageChoice::degrees);
  }

  /// Local search over moves of cuts and degrees: takes every improving move, until a pass finds none.
  void mend(RatedPlan& best, std::uint64_t& evaluations) const {
    std::vector<StageDegrees> degrees;
    for (const StageChoice& choice : choices()) degrees.push_back(choice.degrees);
    for (bool better = true; better;) {
      better = false;
      const auto offer = [&](ParallelPlan plan) {
        if (plan.devices() > costs().devices || all_alike(plan.degrees)) return;
        plan.recompute.clear();
        for (std::size_t s = 0; s < plan.stages(); ++s) {
          const std::size_t begin = s > 0 ? plan.cuts[s - 1] : 0,
                            end = s < plan.cuts.size() ? plan.cuts[s] : costs().layers;
          const StageChoice& choice = choice_of(plan.degrees[s]);
          const auto level = bound_.recompute(choice, begin, end, plan.stages() - 1 - s);
          if (!level || bound_.work(choice.stages->of(begin, end, *level)) >= best.run.step) return;
          plan.recompute.push_back(*level);
        }
        if ((options().allowed && !options().allowed(plan)) || (options().stop && options().stop())) return;
        RatedPlan each = rated(costs(), std::move(plan), evaluations);
        if (each.run.step >= best.run.step || each.run.excess(costs().memory) > Bytes{0}) return;
        best = std::move(each);
        better = true;
      };
      const ParallelPlan base = best.plan;
      each_move_of_cuts(costs(), base, offer);
      each_move_of_degrees(base, degrees, offer);
    }
  }

  StageDegreesBound bound_;
  Nanoseconds limit_ = kLongestTime;
  bool all_ = false, exact_ = false;
  std::vector<Partial> known_;
  std::vector<std::size_t> whole_;  // indices of complete plans, which begin with the first layer
};

}  // namespace

StageDegreesFound search_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options, LayerTables& tables,
                                       std::optional<Nanoseconds> least) {
  StageDegreesFound result{.best = {}, .bound = kLongestTime, .evaluations = 0, .exact = true};
  if (costs.devices > kMostWithStageDegrees) {
    result.exact = false;
    return result;
  }
  // Plans of several stages hold all gradients before the update.
  if (!LeastMemory{costs, tables}.may_fit(true)) return result;
  const PlanCosts known = tables.known_costs();
  const PlanCosts filling = asking(costs, tables);
  StageChoices stages{filling};
  std::vector<DegreesClass> classes;
  for (StageDegreesBound& bound : stage_degrees_classes(known, known, options, stages, TaskParts::together))
    classes.emplace_back(std::move(bound));
  std::vector<std::size_t> order(classes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  sort_by(order, [&](std::size_t i) { return classes[i].bound(); });
  std::size_t next = 0;
  const auto shorter = [&](std::size_t i) { return !least || classes[order[i]].bound() < *least; };
  while (next < order.size() && shorter(next) && !(options.stop && options.stop())) {
    const std::size_t end = std::min(next + kClassesAtOnce, order.size());
    std::vector<std::vector<RatedPlan>> found(end - next);
    std::vector<std::uint64_t> evaluations(end - next, 0);
    const std::optional<Nanoseconds> limit = least;
    parallel_for(thread_count(options.threads), end - next, [&](std::size_t i) {
      DegreesClass& each = classes[order[next + i]];
      if (!limit || each.bound() < *limit) each.tighten(limit.value_or(kLongestTime));
      if (!limit || each.bound() < *limit) found[i] = each.run(limit, evaluations[i]);
    });
    for (std::size_t i = 0; i < found.size(); ++i) {
      result.evaluations += evaluations[i];
      const DegreesClass& own = classes[order[next + i]];
      if ((!limit || own.bound() < *limit) && !own.exact()) {
        result.exact = false;
        result.bound = std::min(result.bound, own.bound());
      }
      std::vector<std::vector<StageDegrees>> kept;
      for (RatedPlan& each : found[i]) {
        if (kept.size() == std::max<std::size_t>(1, options.kept)) break;
        if (std::ranges::find(kept, each.plan.degrees) != kept.end()) continue;
        kept.push_back(each.plan.degrees);
        least = std::min(least.value_or(each.run.step), each.run.step);
        result.best.push_back(std::move(each));
      }
    }
    next = end;
  }
  if (next < order.size()) {
    result.bound = std::min(result.bound, classes[order[next]].bound());
    result.exact = result.exact && !shorter(next);
  }
  return result;
}

}  // namespace trainyard
