#include "trainyard/plan/stage_degrees_search.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "trainyard/core/parallel.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/schedule_bound.hpp"
#include "trainyard/plan/stage_choices.hpp"
#include "trainyard/plan/stage_cost.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostSearched = 64;
/// Where no more plans of a microbatch and ZeRO stage are left, all are run.
constexpr double kAllRun = 4096;
/// Else so many ways to go on are kept of a number of stages, a layer and devices; of whole plans so many are run, and
/// of these so many improved.
constexpr std::size_t kWays = 12, kRun = 48, kMended = 4;
constexpr int kPrices = 40;  // of memory that a bound tries, in quarters of powers of two about the mean
/// Devices at most of which a bound knows how many stages there are; on more, up to so many.
constexpr std::size_t kFewDevices = 16, kFewCounts = 2;
constexpr std::size_t kClassesAtOnce = 4;  // between two looks at the best

bool all_alike(const std::vector<StageDegrees>& degrees) {
  return std::ranges::all_of(degrees, [&](const StageDegrees& each) { return each == degrees.front(); });
}

/// The plans of one microbatch and ZeRO stage.
class DegreesClass {
 public:
  DegreesClass(const PlanCosts& costs, const PlanSearchOptions& options, std::vector<StageChoice> choices,
               std::size_t microbatch, std::size_t zero, TaskParts inside)
      : costs_(costs),
        options_(options),
        choices_(std::move(choices)),
        microbatch_(microbatch),
        zero_(zero),
        inside_(inside),
        m_(static_cast<std::int64_t>(costs.batch / microbatch)) {
    count_bound();
  }

  Nanoseconds bound() const { return bound_; }
  void know_bound(Nanoseconds bound) { bound_ = std::max(bound_, bound); }
  std::size_t microbatch() const { return microbatch_; }
  /// Once run: that every plan which takes less than the limit was looked at.
  bool exact() const { return exact_; }

  /// Has bound() know that stages fill and drain, each on its own devices, send, add up gradients and update; until it
  /// is no less than `limit`.
  void tighten_bound(Nanoseconds limit) {
    if (bound_ >= limit) return;
    limit_ = limit;
    know_rates();
    bound_ = std::max(bound_, least_of_stages());
    stage_times_ = {};
  }

  /// The best of those that take less than `limit`.
  std::vector<RatedPlan> run(std::optional<Nanoseconds> limit, std::uint64_t& evaluations) {
    limit_ = limit.value_or(kLongestTime);
    all_ = exact_ = plans() <= kAllRun;
    chain_stages();
    std::vector<RatedPlan> found;
    std::ranges::stable_sort(whole_, {}, [&](std::size_t at) { return ways_[at].estimate; });
    for (const std::size_t at : whole_) {
      if ((!all_ && found.size() == kRun) || stopped()) break;
      ParallelPlan plan = plan_of(at);
      if (options_.allowed && !options_.allowed(plan)) continue;
      found.push_back(rated(std::move(plan), evaluations));
    }
    ways_ = {};
    whole_ = {};
    std::erase_if(found, [&](const RatedPlan& each) { return each.run.excess(costs_.memory) > Bytes{0}; });
    sort(found);
    for (std::size_t i = 0; !all_ && i < std::min(kMended, found.size()); ++i) mend(found[i], evaluations);
    sort(found);
    return found;
  }

 private:
  /// The stages from one on.
  struct Way {
    std::size_t begin, left, before;  // their first layer, devices before them, and the way without the first stage
    std::size_t choice;
    StageRecomputation recompute;
    Nanoseconds sum, most, tail;  // tail: what ends after the first stage's last backward pass
    Nanoseconds estimate;
    bool alike, shared;  // all have the same degrees; one has replicas
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// Ways to choose cuts and degrees; in double, which does not overflow.
  double plans() const {
    const std::size_t n = costs_.layers, most = costs_.devices;
    std::vector<double> ways((n + 1) * (most + 1), 0.0);
    ways[n * (most + 1) + most] = 1;
    double all = 0;
    for (std::size_t end = n; end > 0; --end)
      for (std::size_t left = 1; left <= most; ++left) {
        const double so_many = ways[end * (most + 1) + left];
        if (so_many == 0) continue;
        for (const StageChoice& choice : choices_) {
          if (choice.degrees.devices() > left) continue;
          for (std::size_t begin = 0; begin < end; ++begin)
            ways[begin * (most + 1) + left - choice.degrees.devices()] += so_many;
        }
      }
    for (std::size_t left = 0; left <= most; ++left) all += ways[left];
    return all;
  }

  bool stopped() {
    const bool stop = options_.stop && options_.stop();
    exact_ = exact_ && !stop;
    return stop;
  }

  std::size_t shards(const StageDegrees& degrees) const { return zero_ > 0 ? degrees.data : 1; }
  std::optional<StageRecomputation> recompute(const StageChoice& choice, std::size_t begin, std::size_t end,
                                              std::size_t behind) const {
    return least_recompute(costs_, choice, begin, end, std::min(static_cast<std::size_t>(m_), behind + 1), zero_,
                           options_.by_layer);
  }
  /// Time of all microbatches: gradients are added but for the first.
  Nanoseconds work(const StageCost& stage) const { return m_ * stage.time() - stage.accumulation; }

  /// One microbatch's time, until its gradient is there; `alike` without recomputation.
  Nanoseconds path_of(const StageCost& stage, const StageCost& alike) const {
    return inside_ == TaskParts::apart ? alike.forward + alike.input_gradient : stage.time() - stage.accumulation;
  }

  void count_bound() {
    const std::size_t n = costs_.layers;
    rest_work_.assign(n + 1, 0.0);
    rest_path_.assign(n + 1, Nanoseconds{0});
    double path = 0;
    Nanoseconds longest{0};
    std::vector<std::vector<WorkAndMemory>> layers(n);
    for (std::size_t i = 0; i < n; ++i) {
      double least_work = -1;
      Nanoseconds least = kLongestTime, least_path = kLongestTime;
      for (const StageChoice& choice : choices_)
        for (const StageRecompute level : choice.stages->levels()) {
          const StageCost& layer = choice.stages->of(i, i + 1, level);
          if (costs_.memory && layer.memory(1, shards(choice.degrees)) > *costs_.memory) continue;
          const double all = static_cast<double>(work(layer).count) * static_cast<double>(choice.degrees.devices());
          least_work = least_work < 0 ? all : std::min(least_work, all);
          layers[i].push_back({all, memory_of(layer, choice.degrees)});
          least = std::min(least, work(layer));
          least_path = std::min(least_path, path_of(layer, choice.stages->of(i, i + 1)));
        }
      if (least_work < 0) return;  // no degrees let it fit
      rest_work_[i + 1] = rest_work_[i] + least_work;
      rest_path_[i + 1] = rest_path_[i] + least_path;
      longest = std::max(longest, least);
      path += static_cast<double>(least_path.count);
    }
    const double mean = std::max(rest_work_[n], work_within_memory(layers)) / static_cast<double>(costs_.devices);
    const auto p = static_cast<double>(std::min(n, costs_.devices));
    const double in_line = path / (1 - std::pow(1 - 1 / static_cast<double>(m_), p));
    bound_ = std::max(longest, Nanoseconds{static_cast<std::int64_t>(std::max(mean, in_line) * (1 - 1e-12)) - 2});
  }

  /// A layer on all its devices: nanoseconds of the step, and bytes with one microbatch in flight.
  struct WorkAndMemory {
    double work, memory;
  };
  double memory_of(const StageCost& layer, const StageDegrees& degrees) const {
    const double state = static_cast<double>(layer.state.count) / static_cast<double>(shards(degrees));
    return static_cast<double>(degrees.devices()) *
           (static_cast<double>((2 * layer.weights + layer.held).count) + state);
  }
  /// No choice of one of each layer whose memory is within that of all devices has less work: the best of some prices
  /// of memory.
  double work_within_memory(const std::vector<std::vector<WorkAndMemory>>& layers) const {
    if (!costs_.memory) return 0;
    // A device rounds its share of the state.
    const double all = static_cast<double>(costs_.devices) * (static_cast<double>(costs_.memory->count) + 1);
    double best = 0;
    for (int power = -kPrices; power <= kPrices; ++power) {
      const double price = rest_work_.back() / all * std::exp2(static_cast<double>(power) / 4);
      double sum = -price * all;
      for (const std::vector<WorkAndMemory>& layer : layers) {
        double least = layer.front().work + price * layer.front().memory;
        for (const WorkAndMemory& each : layer) least = std::min(least, each.work + price * each.memory);
        sum += least;
      }
      best = std::max(best, sum);
    }
    return best;
  }

  /// Nanoseconds of a stage, at least: of all microbatches, of one, of what of all is done before the last one's
  /// gradient is there, of one until its gradient is there and its forward pass, of what it sends of one to the stages
  /// behind and before it, and behind its tasks of its gradients' sum and its update, or of the latter alone. `work` is
  /// below zero where the stage does not fit, or takes the limit.
  struct StageTimes {
    double work = -2, once = 0, before = 0, path = 0, forward = 0, onward = 0, back = 0, after = 0, update = 0;
  };
  const StageTimes& stage_times(std::size_t choice, std::size_t begin, std::size_t end) {
    const std::size_t n = costs_.layers;
    stage_times_.resize(choices_.size() * n * n);
    StageTimes& times = stage_times_[(choice * n + begin) * n + end - 1];
    if (times.work >= -1) return times;
    times.work = -1;
    const StageChoice& own = choices_[choice];
    // All but the last stage hold a second microbatch by then.
    const auto level = recompute(own, begin, end, end == n ? 0 : 1);
    if (!level) return times;
    const StageCost stage = own.stages->of(begin, end, *level);
    const auto number = [](auto quantity) { return static_cast<double>(quantity.count); };
    const bool apart = inside_ == TaskParts::apart;
    const double onward = end < n ? transfer_rate_ * number(stage.output) : 0,
                 back = begin > 0 ? transfer_rate_ * number(stage.input) : 0,
                 update = number(stage.launches + costs_.update(stage.weights, shards(own.degrees))),
                 sum = sum_rates_[choice] * number(stage.weights),
                 after = apart ? std::max(update, sum - number(stage.backward())) : sum + update,
                 limit = number(limit_);
    if (number(work(stage)) + after >= limit || static_cast<double>(m_) * onward >= limit) return times;
    times = {number(work(stage)),
             number(stage.time() - stage.accumulation),
             number(work(stage) - (apart ? stage.weight_gradient + stage.accumulation : Nanoseconds{0})),
             number(path_of(stage, own.stages->of(begin, end))),
             number(stage.forward),
             onward,
             back,
             after,
             apart ? update : after};
    return times;
  }

  /// Nanoseconds a byte, wherever a stage's devices are: of transfers between stages, as between two devices; of the
  /// sums of gradients, by choice, a share of the weights in that share of the time of all.
  void know_rates() {
    Bytes sent{1};
    for (const StageChoice& choice : choices_)
      for (std::size_t i = 0; i < costs_.layers; ++i) {
        const StageCost& layer = choice.stages->of(i, i + 1);
        sent = std::max({sent, layer.input, layer.output});
      }
    const auto number = [](auto quantity) { return static_cast<double>(quantity.count); };
    transfer_rate_ = std::numeric_limits<double>::infinity();
    for (std::size_t a = 0; a < costs_.devices; ++a)
      for (std::size_t b = a + 1; b < costs_.devices; ++b) {
        const ParallelPlan pair{.degrees = {{.data = a}, {}, {.data = b - a - 1}, {}}, .cuts = {1, 2, 3}};
        for (const Nanoseconds time : {costs_.transfer(pair, 1, 3, sent), costs_.transfer(pair, 3, 1, sent)})
          transfer_rate_ = std::min(transfer_rate_, number(time) / number(sent));
      }
    sum_rates_.assign(choices_.size(), 0);
    for (std::size_t c = 0; c < choices_.size(); ++c) {
      const StageDegrees& degrees = choices_[c].degrees;
      const Bytes weights = choices_[c].stages->of(0, costs_.layers).weights;
      if (degrees.data == 1 || weights == Bytes{0}) continue;
      Nanoseconds least = kLongestTime;
      for (std::size_t first = 0; first + degrees.devices() <= costs_.devices; ++first)
        least = std::min(least, costs_.all_reduce({.degrees = {{.data = first}, degrees}, .cuts = {1}}, 1, weights));
      sum_rates_[c] = number(least) / number(weights);
    }
  }

  /// The stages from one on, at least: the step from when the first microbatch can enter, by what they do until their
  /// own updates, or until the first stage's; and one microbatch's way through them, there and back.
  struct Rest {
    double own = 0, first = 0, way = 0;
  };
  /// No other of these is less in all.
  class Least {
   public:
    const std::vector<Rest>& all() const { return kept_; }
    /// Where there would be more than a few, two stand for what is less than either.
    void add(Rest rest) {
      const auto no_less = [](const Rest& one, const Rest& other) {
        return one.own >= other.own && one.first >= other.first && one.way >= other.way;
      };
      for (;;) {
        if (std::ranges::any_of(kept_, [&](const Rest& each) { return no_less(rest, each); })) return;
        std::erase_if(kept_, [&](const Rest& each) { return no_less(each, rest); });
        if (kept_.size() < kLabels) break;
        const auto off = [&](const Rest& each) {
          return std::abs(each.own - rest.own) + std::abs(each.first - rest.first) + std::abs(each.way - rest.way);
        };
        const auto near = std::ranges::min_element(kept_, {}, off);
        rest = {std::min(near->own, rest.own), std::min(near->first, rest.first), std::min(near->way, rest.way)};
        kept_.erase(near);
      }
      kept_.push_back(rest);
    }

   private:
    static constexpr std::size_t kLabels = 6;
    std::vector<Rest> kept_;
  };

  /// No stages of different degrees take less, or no less than the limit. O(layers^2 devices degrees counts), several
  /// times where stages have been alike so far.
  Nanoseconds least_of_stages() {
    const std::size_t n = costs_.layers, most = costs_.devices, kinds = choices_.size() + 1, differ = choices_.size();
    const std::size_t counts = most <= kFewDevices ? most : kFewCounts;  // the last one: or more
    const auto limit = static_cast<double>(limit_.count);
    double least = limit;
    std::vector<Least> rests((n + 1) * (most + 1) * kinds * counts);
    const auto at = [&](std::size_t layer, std::size_t left, std::size_t kind, std::size_t count) -> Least& {
      return rests[((layer * (most + 1) + left) * kinds + kind) * counts + count - 1];
    };
    const auto extend = [&](const Rest& rest, std::size_t end, std::size_t left, std::size_t kind, std::size_t behind) {
      const std::size_t count = std::min(behind + 1, counts);
      for (std::size_t c = 0; c < choices_.size(); ++c) {
        const std::size_t devices = choices_[c].degrees.devices();
        if (devices > left) continue;
        const std::size_t then = end == n || kind == c ? c : differ, others = left - devices;
        for (std::size_t begin = end; begin-- > 0;) {
          const StageTimes& times = stage_times(c, begin, end);
          if (times.work < 0) break;
          if (static_cast<double>(m_) * times.back >= limit || (begin > 0 && others == 0)) continue;
          if (begin > 0 && rest_work_[begin] >= limit * static_cast<double>(others)) continue;
          const double through = times.path + times.onward;
          Rest longer{std::max(times.work + times.after, times.forward + times.onward + rest.own),
                      (begin > 0 ? times.back : times.update) + std::max(times.before, through + rest.first),
                      through + rest.way + times.back};
          if (behind < counts || counts == most) {
            // It holds so many microbatches: the next one enters when the first has left.
            const auto held = std::min(m_, static_cast<std::int64_t>(behind + 1));
            const auto turns = static_cast<double>((m_ - 1) / held), others_of = static_cast<double>((m_ - 1) % held);
            longer.own = std::max(longer.own, (turns + 1) * (times.once + times.onward + rest.way) +
                                                  others_of * (times.once - times.forward));
          }
          if (std::max(longer.own, longer.first) >= least) continue;
          if (begin > 0)
            at(begin, others, then, count).add(longer);
          else if (then == differ)
            least = std::max(longer.own, longer.first);
        }
      }
    };
    extend({}, n, most, differ, 0);
    for (std::size_t end = n; end-- > 1;)
      for (std::size_t left = 1; left <= most; ++left)
        for (std::size_t kind = 0; kind < kinds; ++kind)
          for (std::size_t count = 1; count <= counts; ++count) {
            const std::vector<Rest> from = at(end, left, kind, count).all();
            for (const Rest& rest : from) extend(rest, end, left, kind, count);
          }
    return Nanoseconds{static_cast<std::int64_t>(least * (1 - 1e-12)) - 2 - 4 * static_cast<std::int64_t>(most)};
  }

  /// Stage by stage, from the last one on.
  void chain_stages() {
    const std::size_t states = costs_.layers * (costs_.devices + 1);
    std::vector<std::vector<Way>> next(states);
    std::size_t from = 0;
    extend({.begin = costs_.layers, .left = costs_.devices, .before = kNone, .alike = true}, kNone, 0, next);
    for (std::size_t behind = 1;; ++behind) {
      from = ways_.size();
      for (std::vector<Way>& ways : next) {
        for (const Way& way : ways) {
          if (way.begin == 0) whole_.push_back(ways_.size());
          ways_.push_back(way);
        }
        ways.clear();
      }
      if (from == ways_.size() || stopped()) return;
      for (std::size_t at = from, to = ways_.size(); at < to; ++at)
        if (ways_[at].begin > 0) extend(Way{ways_[at]}, at, behind, next);
    }
  }

  /// By each stage before these, of which there are `behind`.
  void extend(const Way& way, std::size_t at, std::size_t behind, std::vector<std::vector<Way>>& next) {
    ParallelPlan around{
        .degrees = {{.data = 0}, {}}, .cuts = {1}, .microbatch = microbatch_};  // for transfers and sums
    if (behind > 0) {
      around.degrees.push_back(choices_[way.choice].degrees);
      around.cuts.push_back(2);
    }
    for (std::size_t c = 0; c < choices_.size(); ++c) {
      const StageChoice& choice = choices_[c];
      if (choice.degrees.devices() > way.left) continue;
      const std::size_t left = way.left - choice.degrees.devices();
      around.degrees[0].data = left;
      around.degrees[1] = choice.degrees;
      Nanoseconds forward{0}, backward{0};
      if (behind > 0) {
        const StageDegrees& after = choices_[way.choice].degrees;
        forward = costs_.transfer(
            around, 1, 2,
            sent_bytes(choice.stages->of(way.begin - 1, way.begin).output, choice.degrees.data, after.data));
        backward = costs_.transfer(around, 2, 1,
                                   sent_bytes(choices_[way.choice].stages->of(way.begin, way.begin + 1).input,
                                              after.data, choice.degrees.data));
      }
      const Nanoseconds slower = std::max(forward, backward);
      if (m_ * slower >= limit_) continue;
      for (std::size_t begin = way.begin; begin-- > 0;) {
        if (work(choice.stages->of(begin, way.begin)) >= limit_) break;
        if (begin > 0 && left == 0) continue;
        const double rest = left > 0 ? rest_work_[begin] / static_cast<double>(left) : 0;
        if (rest >= static_cast<double>(limit_.count)) continue;
        const bool alike = way.alike && (behind == 0 || way.choice == c),
                   shared = way.shared || choice.degrees.data > 1;
        if (begin == 0 && (alike || (zero_ > 0 && !shared))) continue;
        const auto level = recompute(choice, begin, way.begin, behind);
        if (!level) continue;
        const StageCost stage = choice.stages->of(begin, way.begin, *level);
        if (work(stage) >= limit_) continue;
        Way longer{begin, left, at, c, *level, way.sum + stage.time() + forward + backward, {}, {}, {}, alike, shared};
        longer.most = std::max({way.most, stage.time(), slower});
        const auto in_flight = static_cast<std::int64_t>(behind + 1);
        if (m_ > in_flight) longer.most = std::max(longer.most, Nanoseconds{longer.sum.count / in_flight});
        longer.tail = std::max(Nanoseconds{0}, way.tail - stage.backward() - backward);
        const auto mean = static_cast<std::int64_t>(rest / static_cast<double>(m_));
        const auto estimate = [&] {
          return longer.sum + rest_path_[begin] + (m_ - 1) * std::max(longer.most, Nanoseconds{mean}) + longer.tail;
        };
        longer.estimate = estimate();
        std::vector<Way>& ways = next[begin * (costs_.devices + 1) + left];
        if (!all_ && ways.size() == kWays && longer.estimate >= ways.back().estimate) continue;
        Nanoseconds end = stage.launches + costs_.update(stage.weights, shards(choice.degrees));
        if (choice.degrees.data > 1) end += costs_.all_reduce(around, 1, stage.weights);
        longer.tail = std::max(longer.tail, end);
        longer.estimate = estimate();
        insert(ways, longer);
      }
    }
  }

  /// By the estimate, one of each degrees.
  void insert(std::vector<Way>& ways, const Way& way) const {
    if (!all_) {
      const auto same = std::ranges::find(ways, way.choice, &Way::choice);
      if (same != ways.end() && same->estimate <= way.estimate) return;
      if (same != ways.end()) ways.erase(same);
    }
    ways.insert(std::ranges::upper_bound(ways, way.estimate, {}, &Way::estimate), way);
    if (!all_ && ways.size() > kWays) ways.pop_back();
  }

  ParallelPlan plan_of(std::size_t at) const {
    ParallelPlan plan{.microbatch = microbatch_, .zero = zero_};
    for (; at != kNone; at = ways_[at].before) {
      const Way& way = ways_[at];
      if (way.begin > 0) plan.cuts.push_back(way.begin);
      plan.degrees.push_back(choices_[way.choice].degrees);
      plan.recompute.push_back(way.recompute);
    }
    return plan;
  }

  RatedPlan rated(ParallelPlan plan, std::uint64_t& evaluations) const {
    ++evaluations;
    PlanStep run = run_plan(costs_, plan);
    return {std::move(plan), std::move(run)};
  }
  static void sort(std::vector<RatedPlan>& plans) {
    std::ranges::stable_sort(plans, {}, [](const RatedPlan& each) { return each.run.step; });
  }

  const StageChoice& choice_of(const StageDegrees& degrees) const {
    return *std::ranges::find(choices_, degrees, &StageChoice::degrees);
  }

  /// Single moves, the first that is better, until none is.
  void mend(RatedPlan& best, std::uint64_t& evaluations) const {
    for (bool better = true; better;) {
      better = false;
      const auto offer = [&](ParallelPlan plan) {
        if (plan.devices() > costs_.devices || all_alike(plan.degrees)) return;
        plan.recompute.clear();
        for (std::size_t s = 0; s < plan.stages(); ++s) {
          const std::size_t begin = s > 0 ? plan.cuts[s - 1] : 0,
                            end = s < plan.cuts.size() ? plan.cuts[s] : costs_.layers;
          const StageChoice& choice = choice_of(plan.degrees[s]);
          const auto level = recompute(choice, begin, end, plan.stages() - 1 - s);
          if (!level || work(choice.stages->of(begin, end, *level)) >= best.run.step) return;
          plan.recompute.push_back(*level);
        }
        if ((options_.allowed && !options_.allowed(plan)) || (options_.stop && options_.stop())) return;
        RatedPlan each = rated(std::move(plan), evaluations);
        if (each.run.step >= best.run.step || each.run.excess(costs_.memory) > Bytes{0}) return;
        best = std::move(each);
        better = true;
      };
      each_move(best.plan, offer);
    }
  }
  void each_move(const ParallelPlan& plan, const std::function<void(ParallelPlan)>& offer) const {
    const ParallelPlan base = plan;
    for (std::size_t i = 0; i < base.cuts.size(); ++i)
      for (const int by : {-1, 1}) {
        const std::size_t to = base.cuts[i] + static_cast<std::size_t>(by);
        if (to <= (i > 0 ? base.cuts[i - 1] : 0) || to >= (i + 1 < base.cuts.size() ? base.cuts[i + 1] : costs_.layers))
          continue;
        ParallelPlan moved = base;
        moved.cuts[i] = to;
        offer(std::move(moved));
      }
    for (std::size_t i = 0; i < base.stages(); ++i) {
      for (const StageChoice& choice : choices_) {
        ParallelPlan moved = base;
        if (std::exchange(moved.degrees[i], choice.degrees) == choice.degrees) continue;
        offer(moved);
        // Its devices from another, or to it.
        for (std::size_t j = 0; j < base.stages(); ++j)
          for (const StageChoice& other : choices_) {
            if (j == i || other.degrees == base.degrees[j] || choice.degrees.devices() <= base.degrees[i].devices() ||
                choice.degrees.devices() + other.degrees.devices() !=
                    base.degrees[i].devices() + base.degrees[j].devices())
              continue;
            ParallelPlan both = moved;
            both.degrees[j] = other.degrees;
            offer(std::move(both));
          }
      }
      for (std::size_t j = i + 1; j < base.stages(); ++j) {
        if (base.degrees[i] == base.degrees[j]) continue;
        ParallelPlan moved = base;
        std::swap(moved.degrees[i], moved.degrees[j]);
        offer(std::move(moved));
      }
    }
  }

  const PlanCosts& costs_;
  const PlanSearchOptions& options_;
  const std::vector<StageChoice> choices_;
  const std::size_t microbatch_, zero_;
  const TaskParts inside_;
  const std::int64_t m_;
  Nanoseconds bound_ = kLongestTime, limit_ = kLongestTime;
  bool all_ = false, exact_ = false;
  std::vector<double> rest_work_;        // of the layers before each, at least, devices times time
  std::vector<Nanoseconds> rest_path_;   // and of one microbatch
  std::vector<StageTimes> stage_times_;  // by choice, first and last layer
  double transfer_rate_ = 0;
  std::vector<double> sum_rates_;  // by choice
  std::vector<Way> ways_;
  std::vector<std::size_t> whole_;  // of the ways those that begin with the first layer
};

}  // namespace

namespace {

PlanCosts asking(const PlanCosts& costs, LayerTables& tables) {
  PlanCosts asking = costs;
  asking.layer = [&tables](std::size_t layer, std::size_t samples, LayerDegree tensor) {
    return tables.of(samples, tensor)[layer];
  };
  return asking;
}

/// `of_one`: the costs of plans of one microbatch.
std::vector<DegreesClass> classes_of(const PlanCosts& known, const PlanCosts& of_one, const PlanSearchOptions& options,
                                     StageChoices& stages, TaskParts inside) {
  std::vector<DegreesClass> classes;
  for (const std::size_t microbatch : divisors(known.batch)) {
    const std::vector<StageChoice> choices = stages.of(microbatch);
    const bool shared = std::ranges::any_of(choices, [](const StageChoice& each) { return each.degrees.data > 1; });
    for (std::size_t zero = 0; !choices.empty() && zero <= (shared ? options.most_zero : 0); ++zero) {
      classes.emplace_back(microbatch == known.batch ? of_one : known, options, choices, microbatch, zero, inside);
      if (classes.back().bound() == kLongestTime) classes.pop_back();
    }
  }
  return classes;
}

}  // namespace

std::optional<Nanoseconds> bound_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options,
                                               LayerTables& tables, Nanoseconds enough,
                                               const std::function<Nanoseconds(std::size_t microbatch)>& mean,
                                               const std::function<bool(std::size_t microbatch)>& is_chain) {
  if (costs.devices > kMostSearched) return std::nullopt;
  const PlanCosts known = tables.known_costs();
  PlanCosts of_one = known;  // its gradients need not be there all at once
  of_one.memory.reset();
  const PlanCosts filling = asking(costs, tables);
  StageChoices stages{filling};
  std::vector<DegreesClass> classes = classes_of(known, of_one, options, stages, TaskParts::apart);
  for (DegreesClass& each : classes) each.know_bound(mean(each.microbatch()));
  parallel_for(thread_count(options.threads), classes.size(), [&](std::size_t i) {
    if (is_chain(classes[i].microbatch()) && (!options.stop || !options.stop())) classes[i].tighten_bound(enough);
  });
  Nanoseconds bound = kLongestTime;
  for (const DegreesClass& each : classes) bound = std::min(bound, each.bound());
  return bound;
}

StageDegreesFound search_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options, LayerTables& tables,
                                       std::optional<Nanoseconds> least) {
  StageDegreesFound result{.best = {}, .bound = kLongestTime, .evaluations = 0, .exact = true};
  if (costs.devices > kMostSearched) {
    result.exact = false;
    return result;
  }
  const PlanCosts known = tables.known_costs();
  const PlanCosts filling = asking(costs, tables);
  StageChoices stages{filling};
  std::vector<DegreesClass> classes = classes_of(known, known, options, stages, TaskParts::together);
  std::vector<std::size_t> order(classes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return classes[i].bound(); });
  std::size_t next = 0;
  const auto shorter = [&](std::size_t i) { return !least || classes[order[i]].bound() < *least; };
  while (next < order.size() && shorter(next) && !(options.stop && options.stop())) {
    const std::size_t end = std::min(next + kClassesAtOnce, order.size());
    std::vector<std::vector<RatedPlan>> found(end - next);
    std::vector<std::uint64_t> evaluations(end - next, 0);
    const std::optional<Nanoseconds> limit = least;
    parallel_for(thread_count(options.threads), end - next, [&](std::size_t i) {
      DegreesClass& each = classes[order[next + i]];
      if (!limit || each.bound() < *limit) each.tighten_bound(limit.value_or(kLongestTime));
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
