#include "trainyard/plan/stage_degrees_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainyard/core/parallel.hpp"
#include "trainyard/plan/divisors.hpp"

namespace trainyard {
namespace {

constexpr int kPrices = 40;  // prices of memory tried on each side of the mean rate, in steps of 2^(1/4)
/// Up to kFewDevices devices, states distinguish every number of stages; on more devices only up to kFewCounts.
constexpr std::size_t kFewDevices = 16, kFewCounts = 2;

/// Label of the dynamic program: lower bounds for the stages from one on. `own` and `first` are the step from when the
/// first microbatch can enter, until these stages' own updates and until the first stage's update. `round_trip` is for
/// one microbatch through them.
struct Rest {
  double own = 0, first = 0, round_trip = 0;
};
/// Pareto front of labels.
class Least {
 public:
  const std::vector<Rest>& all() const { return kept_; }
  /// Adds a label. Beyond kLabels, it is merged with the nearest one into their componentwise minimum.
  void add(Rest rest) {
    const auto no_less = [](const Rest& one, const Rest& other) {
      return one.own >= other.own && one.first >= other.first && one.round_trip >= other.round_trip;
    };
    for (;;) {
      if (std::ranges::any_of(kept_, [&](const Rest& each) { return no_less(rest, each); })) return;
      std::erase_if(kept_, [&](const Rest& each) { return no_less(each, rest); });
      if (kept_.size() < kLabels) break;
      const auto off = [&](const Rest& each) {
        return std::abs(each.own - rest.own) + std::abs(each.first - rest.first) +
               std::abs(each.round_trip - rest.round_trip);
      };
      const auto near = std::ranges::min_element(kept_, {}, off);
      rest = {std::min(near->own, rest.own), std::min(near->first, rest.first),
              std::min(near->round_trip, rest.round_trip)};
      kept_.erase(near);
    }
    kept_.push_back(rest);
  }

 private:
  static constexpr std::size_t kLabels = 6;
  std::vector<Rest> kept_;
};

}  // namespace

void StageDegreesBound::count() {
  const std::size_t n = costs_->layers;
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
        if (costs_->memory && layer.memory(1, shards(choice.degrees), m_ > 1) > *costs_->memory) continue;
        const double all = static_cast<double>(work(layer).count) * static_cast<double>(choice.degrees.devices());
        least_work = least_work < 0 ? all : std::min(least_work, all);
        layers[i].push_back({all, memory_of(layer, choice.degrees)});
        least = std::min(least, work(layer));
        least_path = std::min(least_path, path_of(layer, choice.stages->of(i, i + 1)));
      }
    if (least_work < 0) return;  // the layer fits at no degrees
    rest_work_[i + 1] = rest_work_[i] + least_work;
    rest_path_[i + 1] = rest_path_[i] + least_path;
    longest = std::max(longest, least);
    path += static_cast<double>(least_path.count);
  }
  const double mean = std::max(rest_work_[n], work_within_memory(layers)) / static_cast<double>(costs_->devices);
  const auto p = static_cast<double>(std::min(n, costs_->devices));
  const double in_line = path / (1 - std::pow(1 - 1 / static_cast<double>(m_), p));
  bound_ = std::max(longest, Nanoseconds{static_cast<std::int64_t>(std::max(mean, in_line) * (1 - 1e-12)) - 2});
}

double StageDegreesBound::memory_of(const StageCost& layer, const StageDegrees& degrees) const {
  const double state = static_cast<double>(layer.state.count) / static_cast<double>(shards(degrees).state);
  const std::int64_t copies = m_ > 1 ? 2 : 1;  // weights and gradients; a single microbatch never holds all gradients
  return static_cast<double>(degrees.devices()) *
         (static_cast<double>((copies * layer.weights + layer.held).count) + state);
}

/// Lower bound on the work of any choice of degrees and recomputation per layer whose memory is within that of all
/// devices: the best of several Lagrangian prices of memory.
double StageDegreesBound::work_within_memory(const std::vector<std::vector<WorkAndMemory>>& layers) const {
  if (!costs_->memory) return 0;
  // Each device rounds its share of the state.
  const double all = static_cast<double>(costs_->devices) * (static_cast<double>(costs_->memory->count) + 1);
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

void StageDegreesBound::tighten(Nanoseconds limit) {
  if (bound_ >= limit) return;
  limit_ = limit;
  know_rates();
  bound_ = std::max(bound_, least_of_stages());
  stage_times_ = {};
}

const StageDegreesBound::StageTimes& StageDegreesBound::stage_times(std::size_t choice, std::size_t begin,
                                                                    std::size_t end) {
  const std::size_t n = costs_->layers;
  stage_times_.resize(choices_.size() * n * n);
  StageTimes& times = stage_times_[(choice * n + begin) * n + end - 1];
  if (times.work >= -1) return times;
  times.work = -1;
  const StageChoice& own = choices_[choice];
  // Every stage but the last holds at least two microbatches in flight.
  const auto level = recompute(own, begin, end, end == n ? 0 : 1);
  if (!level) return times;
  const StageCost stage = own.stages->of(begin, end, *level);
  const auto number = [](auto quantity) { return static_cast<double>(quantity.count); };
  const bool apart = inside_ == TaskParts::apart;
  const double onward = end < n ? transfer_rate_ * number(stage.output) : 0,
               back = begin > 0 ? transfer_rate_ * number(stage.input) : 0,
               update = number(stage.launches + costs_->update(stage.weights, shards(own.degrees).state, 0)),
               sum = sum_rates_[choice] * number(stage.weights),
               after = apart ? std::max(update, sum - number(stage.backward())) : sum + update, limit = number(limit_);
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

/// Sets rates in nanoseconds per byte, minimal over placements of a stage's devices: of transfers between two devices,
/// and by choice of sums of gradients (a share of the weights is assumed to take that share of the time for all).
void StageDegreesBound::know_rates() {
  Bytes sent{1};
  for (const StageChoice& choice : choices_)
    for (std::size_t i = 0; i < costs_->layers; ++i) {
      const StageCost& layer = choice.stages->of(i, i + 1);
      sent = std::max({sent, layer.input, layer.output});
    }
  const auto number = [](auto quantity) { return static_cast<double>(quantity.count); };
  transfer_rate_ = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < costs_->devices; ++a)
    for (std::size_t b = a + 1; b < costs_->devices; ++b) {
      const ParallelPlan pair{.degrees = {{.data = a}, {}, {.data = b - a - 1}, {}}, .cuts = {1, 2, 3}};
      for (const Nanoseconds time : {costs_->transfer(pair, 1, 3, sent), costs_->transfer(pair, 3, 1, sent)})
        transfer_rate_ = std::min(transfer_rate_, number(time) / number(sent));
    }
  sum_rates_.assign(choices_.size(), 0);
  for (std::size_t c = 0; c < choices_.size(); ++c) {
    const StageDegrees& degrees = choices_[c].degrees;
    const Bytes weights = choices_[c].stages->of(0, costs_->layers).weights;
    if (degrees.data == 1 || weights == Bytes{0}) continue;
    Nanoseconds least = kLongestTime;
    for (std::size_t first = 0; first + degrees.devices() <= costs_->devices; ++first)
      least = std::min(least, costs_->all_reduce({.degrees = {{.data = first}, degrees}, .cuts = {1}}, 1, weights));
    sum_rates_[c] = number(least) / number(weights);
  }
}

/// The dynamic program of tighten(): a lower bound for all sequences of stages with different degrees, or the limit.
/// O(layers^2 devices degrees counts); more by a factor of the degrees for states whose stages are all alike so far.
Nanoseconds StageDegreesBound::least_of_stages() {
  const std::size_t n = costs_->layers, most = costs_->devices, kinds = choices_.size() + 1, differ = choices_.size();
  const std::size_t counts = most <= kFewDevices ? most : kFewCounts;  // the last value means "or more"
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
                    through + rest.round_trip + times.back};
        if (behind < counts || counts == most) {
          // The stage holds `held` microbatches: the next one enters when the first has left.
          const auto held = std::min(m_, static_cast<std::int64_t>(behind + 1));
          const auto turns = static_cast<double>((m_ - 1) / held), others_of = static_cast<double>((m_ - 1) % held);
          longer.own = std::max(longer.own, (turns + 1) * (times.once + times.onward + rest.round_trip) +
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

PlanCosts asking(const PlanCosts& costs, LayerTables& tables) {
  PlanCosts asking = costs;
  asking.layer = [&tables](std::size_t layer, std::size_t samples, LayerDegree tensor) {
    return tables.of(samples, tensor)[layer];
  };
  return asking;
}

std::vector<StageDegreesBound> stage_degrees_classes(const PlanCosts& known, const PlanCosts& of_one,
                                                     const PlanSearchOptions& options, StageChoices& stages,
                                                     TaskParts inside) {
  std::vector<StageDegreesBound> classes;
  for (const std::size_t microbatch : divisors(known.batch)) {
    const std::vector<StageChoice> choices = stages.of(microbatch);
    const bool shared = std::ranges::any_of(choices, [](const StageChoice& each) { return each.degrees.data > 1; });
    for (std::size_t zero = 0; !choices.empty() && zero <= (shared ? std::min<std::size_t>(options.most_zero, 1) : 0);
         ++zero) {
      classes.emplace_back(microbatch == known.batch ? of_one : known, options, choices, microbatch, zero, inside);
      if (classes.back().bound() == kLongestTime) classes.pop_back();
    }
  }
  return classes;
}

std::optional<Nanoseconds> bound_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options,
                                               LayerTables& tables, Nanoseconds enough,
                                               const std::function<Nanoseconds(std::size_t microbatch)>& mean,
                                               const std::function<bool(std::size_t microbatch)>& is_chain) {
  if (costs.devices > kMostWithStageDegrees) return std::nullopt;
  const PlanCosts known = tables.known_costs();
  PlanCosts of_one = known;  // a single microbatch need not hold all gradients at once
  of_one.memory.reset();
  const PlanCosts filling = asking(costs, tables);
  StageChoices stages{filling};
  std::vector<StageDegreesBound> classes = stage_degrees_classes(known, of_one, options, stages, TaskParts::apart);
  for (StageDegreesBound& each : classes) each.know(mean(each.microbatch()));
  parallel_for(thread_count(options.threads), classes.size(), [&](std::size_t i) {
    if (is_chain(classes[i].microbatch()) && (!options.stop || !options.stop())) classes[i].tighten(enough);
  });
  Nanoseconds bound = kLongestTime;
  for (const StageDegreesBound& each : classes) bound = std::min(bound, each.bound());
  return bound;
}

}  // namespace trainyard
