#include "trainyard/plan/schedule_bound.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/fills.hpp"
#include "trainyard/plan/schedule_graph.hpp"
#include "trainyard/plan/stage_cost.hpp"
#include "trainyard/solve/linear_program.hpp"

namespace trainyard {
namespace {

/// Upper limit on the tasks (three per stage and microbatch) of schedules that are bounded.
constexpr std::size_t kMostTasks = 1 << 18;
/// A path is added only if it is longer by this share.
constexpr double kNear = 1e-3;
/// Layers count as equal if the bound is within this share of the linear program over their mean.
constexpr double kAlike = 5e-3;
/// Upper limit on the price of a device's whole memory, in multiples of BoundOfSchedule::unit_.
constexpr double kMostPrice = 1e4;
/// Rounds, and parts in branching, that have to raise the bound by a share of kNear for the search to go on.
constexpr std::size_t kFewRounds = 10, kFewParts = 200;
/// Branching: best duals (weights and prices) that bound each part, parts per round at most, ScheduleBound::work that
/// is always allowed.
constexpr std::size_t kDuals = 3, kParts = 100;
constexpr std::uint64_t kSmall = 10'000'000;

/// Stall test: every `steps` calls, whether the value has risen by less than a share of kNear since the last test.
class Rising {
 public:
  explicit Rising(std::size_t steps) : steps_(steps) {}
  bool stalls(double value) {
    if (++step_ % steps_ != 0) return false;
    const double before = std::exchange(last_, value);
    return value < before * (1 + kNear);
  }

 private:
  const std::size_t steps_;
  std::size_t step_ = 0;
  double last_ = 0;
};

/// Times and bytes of a layer, or of the mean or sum of several.
struct LayerTimes {
  PartSums parts{};
  double after = 0;                    // time after its device's tasks, or of its sums
  double resident = 0, gradients = 0;  // bytes: always held; held once the first gradients have been made
  struct Level {
    double again = 0, held = 0;  // recompute time; bytes held per microbatch
  };
  std::vector<Level> levels{};

  void add(const LayerTimes& other, double share) {
    parts.add(other.parts, share);
    after += share * other.after;
    resident += share * other.resident;
    gradients += share * other.gradients;
    levels.resize(other.levels.size());
    for (std::size_t level = 0; level < levels.size(); ++level) {
      levels[level].again += share * other.levels[level].again;
      levels[level].held += share * other.levels[level].held;
    }
  }
  double time(const PartSums& counts) const { return parts.product(counts); }
};

class BoundOfSchedule {
 public:
  BoundOfSchedule(const PlanCosts& costs, const ParallelPlan& like, const TaskRules& rules)
      : costs_(costs),
        like_(like),
        p_(like.devices_in_row()),
        stages_(like.stages()),
        known_(layers_of(costs, like)),
        rules_(rules),
        sums_(rules.inside == TaskParts::apart ? sums_of_gradients() : SumsOfGradients{}),
        graph_(like, costs.batch / like.data / like.microbatch, rules, sums_.per_byte > 0) {
    const std::vector<LayerCost>& layers = known_;
    const auto [dense, experts] = rates_after(layers, rules.inside == TaskParts::together);
    if (rules.own_sums.empty()) sums_.of_stage = 0;
    const std::vector<StageRecompute> levels = recompute_levels(costs, layers);
    const auto number = [](auto quantity) { return static_cast<double>(quantity.count); };
    const auto held = [&](Bytes all, Bytes of_experts, std::size_t shards, std::size_t expert_shards) {
      return number(all - of_experts) / static_cast<double>(shards) +
             number(of_experts) / static_cast<double>(expert_shards);
    };
    const Shards shards = like.shards();
    for (const LayerCost& layer : layers) {
      const Nanoseconds accumulation = shards.accumulation(layer.accumulation, layer.expert_accumulation);
      LayerTimes times{
          .parts = PartSums({number(layer.forward), 0, number(layer.input_gradient), number(layer.weight_gradient),
                             number(accumulation), 0, 0}),
          .after = sums_.per_byte > 0 ? sums_.per_byte * number(layer.weights - layer.expert_weights)
                                      : dense * number(layer.weights - layer.expert_weights) +
                                            experts * number(layer.expert_weights) + number(layer.launches),
          .resident = held(layer.weights, layer.expert_weights, shards.weights, shards.expert_weights) +
                      held(layer.state, layer.expert_state, shards.state, shards.expert_state),
          .gradients = held(layer.weights, layer.expert_weights, shards.gradients, shards.expert_gradients)};
      for (const StageRecompute level : levels)
        times.levels.push_back({number(again_of(layer, level)), number(held_of(layer, level))});
      layers_.push_back(std::move(times));
    }
    for (std::size_t s = 0; s + 1 < stages_; ++s) {
      onward_.push_back(over_cut(layers, s, s + 1, &LayerCost::output, 0));
      back_.push_back(over_cut(layers, s + 1, s, &LayerCost::input, 1));
    }
    // Each device rounds its share of the state.
    if (costs.memory) room_ = number(*costs.memory) + 1;
    const std::size_t between = layers_.size() - 2;
    for (std::size_t i = 1; i <= between; ++i) between_.add(layers_[i], 1 / static_cast<double>(between));
    for (const LayerTimes* layer :
         {&std::as_const(layers_.front()), &std::as_const(between_), &std::as_const(layers_.back())})
      for (std::size_t s = 0; s < stages_; ++s)
        for (std::size_t level = 0; level < layer->levels.size(); ++level)
          if (layer == &between_ || s == (layer == &layers_.front() ? 0 : stages_ - 1))
            rows_.push_back({s, layer, level, layer == &between_ ? static_cast<double>(between) : 1});
  }

  ScheduleBound run(Nanoseconds enough, std::size_t rounds) {
    const auto slack = 2 + static_cast<double>(p_) * (2 * static_cast<double>(like_.replicas()) + 1);
    ScheduleBound result{Nanoseconds{0}, 0};
    for (std::size_t e = 0; e < graph_.ends().size(); ++e) paths_.push_back({through(graph_.ends()[e]), e});
    for (const LayerTimes& layer : layers_)
      for (const PartSums& counts : paths_.front().counts) unit_ += layer.time(counts) / static_cast<double>(p_);
    unit_ = std::max(1.0, unit_);
    weigh_paths(result, enough, rounds, slack);
    if (result.bound < enough) branch(result, enough, kParts * rounds, slack);
    return result;
  }

 private:
  /// Rounds of both linear programs: over equal layers, then over the cuts found.
  void weigh_paths(ScheduleBound& result, Nanoseconds enough, std::size_t rounds, double slack) {
    double value = 0;
    Rising rising{kFewRounds}, rising_over_cuts{kFewRounds};
    for (std::size_t round = 0; round < rounds && result.bound < enough; ++round) {
      const Dual dual = best_dual();
      value = dual.value;
      result.work += dual.work + 10 * graph_.size() + 10 * stages_ * layers_.size();
      raise(result, least_of_cuts(dual), slack);
      if (!learn_paths(dual) || rising.stalls(static_cast<double>(result.bound.count))) break;
    }
    if (std::abs(value - static_cast<double>(result.bound.count)) < kAlike * value) return;
    for (std::size_t round = 0; round < rounds && result.bound < enough; ++round) {
      const Dual dual = best_dual_of_cuts();
      result.work += dual.work + 10 * graph_.size() + 10 * stages_ * layers_.size() + paths_.size() * cuts_.size();
      const std::size_t paths = paths_.size(), cuts = cuts_.size();
      raise(result, least_of_cuts(dual), slack);
      learn_paths_of(cuts_[last_cuts_], dual.value);
      if ((paths == paths_.size() && cuts == cuts_.size()) ||
          static_cast<double>(result.bound.count) > dual.value * (1 - kNear) ||
          rising_over_cuts.stalls(static_cast<double>(result.bound.count)))
        break;
    }
  }

  /// Constraint of best_dual(): a layer group (the first layer, the last, or the mean of `count` between them) in a
  /// stage, with a level of recomputation.
  struct Row {
    std::size_t stage;
    const LayerTimes* layer;
    std::size_t level;
    double count;
  };
  struct Path {
    std::vector<PartSums> counts;  // by stage
    std::size_t end;               // index into ScheduleGraph::ends
  };
  /// Cuts and recomputation that minimize the bound for some weights and prices, with their costs.
  struct Cuts {
    std::vector<std::size_t> begins;   // by stage
    std::vector<std::size_t> levels;   // by layer
    std::vector<PartSums> times;       // by stage
    std::vector<double> after, last;   // by stage: time of its sums; of its last gradient's sum
    std::vector<double> bytes;         // by device and instant
    std::vector<double> lengths = {};  // by path
  };
  /// A part of the cuts: stage s begins with a layer from first[s] to last[s].
  struct Windows {
    std::vector<std::size_t> first, last;
    double bound;
  };
  static void raise(ScheduleBound& result, double least, double slack) {
    result.bound = std::max(result.bound, Nanoseconds{static_cast<std::int64_t>(least * (1 - 1e-9) - slack)});
  }
  /// Solution of a linear program: weights of paths, and prices of bytes.
  struct Dual {
    std::vector<PartSums> counts;      // by stage: weighted mean of the paths' counts
    std::vector<double> behind;        // by stage: total weight of paths that end with its sums or update
    std::vector<double> last_sum;      // by stage: total weight of paths that end with its last gradient's sum
    std::vector<double> price;         // by device: price of a resident byte
    std::vector<double> held;          // by stage: price of a byte of a microbatch
    std::vector<double> gradients;     // by stage: price of a byte of gradients
    std::vector<PartSums> times = {};  // by stage, for the cuts that the program implies
    std::vector<double> after = {};    // by stage, for these cuts
    double value = 0;
    std::uint64_t work = 0;
  };

  static std::vector<LayerCost> layers_of(const PlanCosts& costs, const ParallelPlan& like) {
    std::vector<LayerCost> layers;
    for (std::size_t i = 0; i < costs.layers; ++i)
      layers.push_back(costs.layer(i, like.microbatch, like.layer_degree()));
    return layers;
  }

  /// Lower bound on the time of a sum that is concave in its bytes: nanoseconds per byte, plus a constant per stage.
  /// Both are 0 if all sums together take no longer than a last task.
  struct SumsOfGradients {
    double per_byte = 0, of_stage = 0;
  };
  SumsOfGradients sums_of_gradients() const {
    if (like_.replicas() == 1) return {};
    Bytes weights{0};
    Nanoseconds task{0}, none = kLongestTime, all = kLongestTime;
    for (const LayerCost& layer : known_) {
      weights += layer.weights - layer.expert_weights;
      task += layer.input_gradient + layer.weight_gradient + layer.accumulation;
    }
    for (std::size_t i = 0; i < p_; ++i) {
      none = std::min(none, costs_.all_reduce(like_, i, Bytes{1}));
      all = std::min(all, costs_.all_reduce(like_, i, weights));
    }
    if (all + static_cast<std::int64_t>(stages_ - 1) * none <= task || weights <= Bytes{1}) return {};
    const double per_byte = static_cast<double>((all - none).count) / static_cast<double>(weights.count - 1);
    return {per_byte, std::max(0.0, static_cast<double>(none.count) - per_byte)};
  }

  /// Nanoseconds after a device's tasks, per byte of dense weights and per byte of experts.
  std::pair<double, double> rates_after(const std::vector<LayerCost>& layers, bool with_sums) const {
    Bytes weights{0}, of_experts{0};
    for (const LayerCost& layer : layers) {
      weights += layer.weights - layer.expert_weights;
      of_experts += layer.expert_weights;
    }
    const auto least = [&](const auto& time) {
      Nanoseconds best = time(0);
      for (std::size_t i = 1; i < p_; ++i) best = std::min(best, time(i));
      return best;
    };
    Nanoseconds dense = costs_.update(weights, like_.shards().state, 0), experts{0};
    if (with_sums && like_.replicas() > 1)
      dense += least([&](std::size_t i) { return sum_behind(costs_, like_, i, weights); });
    if (of_experts > Bytes{0}) {
      experts = costs_.update(of_experts, like_.shards().expert_state, 0);
      if (with_sums && like_.replicas() > 1)
        experts += least([&](std::size_t i) { return expert_sum_behind(costs_, like_, i, of_experts); });
    }
    const auto rate = [](Nanoseconds time, Bytes bytes) {
      return bytes > Bytes{0} ? static_cast<double>(time.count) / static_cast<double>(bytes.count) : 0;
    };
    return {rate(dense, weights), rate(experts, of_experts)};
  }

  /// Transfer times over the cut between two stages, by the layer before the cut. `ahead` is 0 if that layer has the
  /// bytes, 1 if the layer after the cut has.
  std::vector<double> over_cut(const std::vector<LayerCost>& layers, std::size_t from, std::size_t to,
                               Bytes LayerCost::*bytes, std::size_t ahead) const {
    const std::size_t a = graph_.device(from), b = graph_.device(to);
    std::vector<double> times(layers.size(), 0);
    for (std::size_t i = 0; a != b && i + 1 < layers.size(); ++i) {
      const Bytes sent = layers[i + ahead].*bytes;
      times[i] = i > 0 && layers[i - 1 + ahead].*bytes == sent
                     ? times[i - 1]
                     : static_cast<double>(costs_.transfer(like_, a, b, sent).count);
    }
    return times;
  }

  /// The path of the first microbatch to the device of an end, and then through all tasks of the device before the end.
  std::vector<PartSums> through(const ScheduleGraph::End& end) const {
    std::vector<PartSums> counts(stages_);
    for (std::size_t s = 0; s < end.device; ++s) counts[s][TaskPart::forward] = counts[s][TaskPart::onward] = 1;
    for (std::size_t k = 0; k < end.tasks; ++k) {
      const PipelineTask& task = graph_.tasks(end.device)[k];
      graph_.count(task, counts[graph_.stage(end.device, task.chunk)]);
    }
    return counts;
  }

  /// Solves the linear program over equal layers: the first and the last layer stay in the first and last stage, and
  /// each layer between them is replaced by the mean. Variables are the weights y of paths, prices u, for each of the
  /// three groups the least cost theta of a layer in any stage, and nu >= 0 for each stage between the first and the
  /// last, which needs at least one layer:
  ///
  ///     maximize  sum over groups of (layers) theta + sum of nu + sum of y (transfers of the path) - sum of u (room)
  ///     for every group, stage and level of recomputation  theta + nu  <=  the layer's cost there, given y and u
  ///     sum of y  =  1
  Dual best_dual() {
    const std::size_t middle = (layers_.size() - 1) / 2;
    LinearProgram program;
    std::vector<std::vector<LinearProgram::Term>> rows(rows_.size());
    std::vector<LinearProgram::Term> whole;
    each_instant([&](std::size_t i, const ScheduleGraph::Held& instant) {
      const std::uint32_t column = program.add_column(1, 0, kMostPrice);
      for (std::size_t k = 0; k < rows_.size(); ++k) {
        const auto& [s, layer, level, count] = rows_[k];
        if (graph_.device(s) != i) continue;
        const std::size_t c = chunk_of(s);
        const double bytes = layer->resident + static_cast<double>(instant.gradients[c]) * layer->gradients +
                             static_cast<double>(instant.microbatches[c]) * layer->levels[level].held;
        if (bytes > 0) rows[k].push_back({column, -bytes / room_});
      }
    });
    const LayerTimes* group = nullptr;
    std::uint32_t theta = 0, nu = 0;
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const auto& [s, layer, level, count] = rows_[k];
      if (layer != group) theta = program.add_column(-count, -LinearProgram::kInfinity, LinearProgram::kInfinity);
      group = layer;
      rows[k].push_back({theta, 1});
      if (layer != &between_ || s == 0 || s + 1 == stages_) continue;
      if (level == 0) nu = program.add_column(-1, 0, LinearProgram::kInfinity);
      rows[k].push_back({nu, 1});
    }
    for (const Path& path : paths_) {
      const ScheduleGraph::End& end = graph_.ends()[path.end];
      const std::vector<std::size_t>& behind = end.stages;
      double transfers = sums_.of_stage * static_cast<double>(behind.size()) + (end.last_sum ? last_sum(middle) : 0);
      for (std::size_t s = 0; s + 1 < stages_; ++s)
        transfers += path.counts[s][TaskPart::onward] * onward_[s][middle] +
                     path.counts[s + 1][TaskPart::back] * back_[s][middle];
      const std::uint32_t column = program.add_column(-transfers / unit_, 0, LinearProgram::kInfinity);
      for (std::size_t k = 0; k < rows_.size(); ++k) {
        const auto& [s, layer, level, count] = rows_[k];
        const double time = layer->time(path.counts[s]) + path.counts[s][TaskPart::again] * layer->levels[level].again +
                            (std::ranges::find(behind, s) != behind.end() ? layer->after : 0);
        if (time > 0) rows[k].push_back({column, -time / unit_});
      }
      whole.push_back({column, 1});
    }
    for (const auto& row : rows) program.add_row(-LinearProgram::kInfinity, 0, row);
    program.add_row(1, 1, whole);
    return read(solve_on(program, basis_));
  }

  std::size_t chunk_of(std::size_t stage) const {
    std::size_t chunk = 0;
    while (graph_.stage(graph_.device(stage), chunk) != stage) ++chunk;
    return chunk;
  }

  /// Warm start from the basis of the last round, whose program had fewer paths or cuts.
  static LinearSolution solve_on(const LinearProgram& program, SimplexBasis& basis) {
    LinearSolution solution = solve_by_simplex(program, {.start = std::move(basis)});
    basis = std::move(solution.basis);
    return solution;
  }

  /// The dual from a solution. Columns start with the prices and end with the paths.
  Dual read(const LinearSolution& solution) const {
    const std::vector<double> none(stages_, 0);
    Dual dual{std::vector<PartSums>(stages_), none, none, std::vector<double>(p_, 0), none, none};
    dual.value = -solution.value * unit_;
    dual.work = solution.work;
    const auto weight = [&](std::size_t column) { return std::max(0.0, solution.x[column]); };
    const std::size_t first_path = solution.x.size() - paths_.size();
    double sum = 0;
    for (std::size_t k = 0; k < paths_.size(); ++k) sum += weight(first_path + k);
    for (std::size_t k = 0; k < paths_.size(); ++k) {
      const double share = sum > 0 ? weight(first_path + k) / sum : 1.0 / static_cast<double>(paths_.size());
      const ScheduleGraph::End& end = graph_.ends()[paths_[k].end];
      for (const std::size_t s : end.stages) dual.behind[s] += share;
      if (end.last_sum) dual.last_sum[*end.last_sum] += share;
      for (std::size_t s = 0; s < stages_; ++s) dual.counts[s].add(paths_[k].counts[s], share);
    }
    std::size_t column = 0;
    each_instant([&](std::size_t i, const ScheduleGraph::Held& instant) {
      const double price = weight(column++) * unit_ / room_;
      dual.price[i] += price;
      for (std::size_t c = 0; c < like_.chunks; ++c) {
        dual.held[graph_.stage(i, c)] += price * static_cast<double>(instant.microbatches[c]);
        dual.gradients[graph_.stage(i, c)] += price * static_cast<double>(instant.gradients[c]);
      }
    });
    if (solution.prices.size() < rows_.size()) return dual;
    // The multiplier of a row is the number of layers of its group and level in its stage.
    const std::size_t middle = (layers_.size() - 1) / 2;
    std::vector<LayerTimes> stages(stages_);
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const auto& [s, layer, level, count] = rows_[k];
      const double many = std::max(0.0, -solution.prices[k]);
      stages[s].add(*layer, many);
      stages[s].parts[TaskPart::again] += many * layer->levels[level].again;
    }
    for (std::size_t s = 0; s < stages_; ++s) {
      if (s + 1 < stages_) stages[s].parts[TaskPart::onward] = onward_[s][middle];
      if (s > 0) stages[s].parts[TaskPart::back] = back_[s - 1][middle];
      dual.times.push_back(stages[s].parts);
      dual.after.push_back(stages[s].after + sums_.of_stage);
    }
    return dual;
  }

  /// Adds the longest path to each end, for the cuts that the program implies, if it is longer than the program's
  /// value. False if there is none.
  bool learn_paths(const Dual& dual) {
    if (dual.times.empty()) return false;
    const std::vector<double> ends = graph_.ends(dual.times);
    const std::size_t before = paths_.size();
    for (std::size_t e = 0; e < ends.size(); ++e) {
      const ScheduleGraph::End& end = graph_.ends()[e];
      double whole = ends[e];
      for (const std::size_t s : end.stages) whole += dual.after[s];
      if (end.last_sum) whole += last_sum((layers_.size() - 1) / 2);
      if (whole > dual.value * (1 + kNear)) paths_.push_back({graph_.longest_path(end), e});
    }
    return paths_.size() > before;
  }

  /// Lower bound on the time from the last task of a stage that begins with this layer to the end of the sum of its
  /// last gradient. The task may still compute the layer's input gradient after that gradient, and the sum may be tiny.
  double last_sum(std::size_t layer) const {
    if (sums_.of_stage == 0 || known_[layer].weights == known_[layer].expert_weights) return 0;
    double again = 0;
    for (const LayerTimes::Level& level : layers_[layer].levels) again = std::max(again, level.again);
    return std::max(0.0, sums_.of_stage - layers_[layer].parts[TaskPart::input_gradient] - again);
  }

  /// Minimum of the bound over all cuts and recomputations. Keeps the minimizing cuts, and the dual if it is good.
  double least_of_cuts(const Dual& dual) {
    const std::size_t n = layers_.size();
    std::vector<std::uint8_t> begins_here(stages_ * n, 0);
    const double sum = least_within(all_cuts(), dual, &begins_here);
    Cuts cuts{.begins = std::vector<std::size_t>(stages_, 0),
              .levels = {},
              .times = {},
              .after = {},
              .last = {},
              .bytes = {}};
    for (std::size_t s = stages_, i = n; s-- > 0;) {
      while (begins_here[s * n + i - 1] == 0) --i;
      cuts.begins[s] = --i;
    }
    for (std::size_t s = 0; s < stages_; ++s)
      for (std::size_t i = cuts.begins[s]; i < (s + 1 < stages_ ? cuts.begins[s + 1] : n); ++i) {
        const auto cost = [&](const LayerTimes::Level& level) {
          return dual.counts[s][TaskPart::again] * level.again + dual.held[s] * level.held;
        };
        cuts.levels.push_back(static_cast<std::size_t>(std::ranges::min_element(layers_[i].levels, {}, cost) -
                                                       layers_[i].levels.begin()));
      }
    keep(std::move(cuts));
    const auto better = std::ranges::find_if(duals_, [&](const auto& each) { return each.first < sum; });
    if (better != duals_.end() || duals_.size() < kDuals) duals_.insert(better, {sum, dual});
    if (duals_.size() > kDuals) duals_.pop_back();
    return sum;
  }

  Windows all_cuts() const {
    Windows all{{}, {}, 0};
    for (std::size_t s = 0; s < stages_; ++s) {
      all.first.push_back(s);
      all.last.push_back(s == 0 ? 0 : layers_.size() - (stages_ - s));
    }
    return all;
  }

  /// Minimum of the bound over recomputations and the cuts in these windows, by dynamic programming. Sets begins_here[s
  /// n + i] if stage s best begins with layer i.
  double least_within(const Windows& windows, const Dual& dual,
                      std::vector<std::uint8_t>* begins_here = nullptr) const {
    const std::size_t n = layers_.size();
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<double> before(n, kNever), least(n);  // layers up to i, in the stages before s, or up to s
    for (std::size_t s = 0; s < stages_; ++s) {
      std::ranges::fill(least, kNever);
      const std::size_t device = graph_.device(s), end = s + 1 < stages_ ? windows.last[s + 1] : n;
      for (std::size_t i = windows.first[s]; i < end; ++i) {
        double best = i > windows.first[s] ? least[i - 1] : kNever;
        if (i <= windows.last[s]) {
          const double begins = !rules_.own_sums.empty() && rules_.own_sums[i]
                                    ? dual.behind[s] * sums_.of_stage + dual.last_sum[s] * last_sum(i)
                                    : 0;
          const double anew = s == 0 ? begins
                                     : before[i - 1] + begins +
                                           dual.counts[s - 1][TaskPart::onward] * onward_[s - 1][i - 1] +
                                           dual.counts[s][TaskPart::back] * back_[s - 1][i - 1];
          if (anew < best) {
            best = anew;
            if (begins_here != nullptr) (*begins_here)[s * n + i] = 1;
          }
        }
        double cheapest = kNever;
        for (const LayerTimes::Level& level : layers_[i].levels)
          cheapest = std::min(cheapest, dual.counts[s][TaskPart::again] * level.again + dual.held[s] * level.held);
        least[i] = best + cheapest + layers_[i].time(dual.counts[s]) + dual.price[device] * layers_[i].resident +
                   dual.gradients[s] * layers_[i].gradients + dual.behind[s] * layers_[i].after;
      }
      std::swap(before, least);
    }
    double sum = before.back();
    for (const double price : dual.price) sum -= price * room_;
    return sum;
  }

  /// Least recompute time per microbatch of a stage with these layers, and perhaps others, in its device's memory: each
  /// byte beyond it at the cheapest rate. 0 if devices have several stages.
  double again_within_memory(std::size_t s, std::size_t begin, std::size_t end) const {
    if (room_ == 0 || like_.chunks > 1) return 0;
    const auto sum = [&](const auto& of) { return of(up_to_[end]) - of(up_to_[begin]); };
    const double beyond = sum([](const LayerTimes& times) { return times.resident; }) - room_;
    double most = 0;
    for (const ScheduleGraph::Held& instant : graph_.instants(graph_.device(s))) {
      const auto held = static_cast<double>(instant.microbatches.front());
      const double over = beyond + held * sum([](const LayerTimes& times) { return times.levels.front().held; }) +
                          (instant.gradients.front() > 0 ? sum(std::mem_fn(&LayerTimes::gradients)) : 0);
      most = std::max(most, over / held);
    }
    return most > 0 ? most * cheapest_ : 0;
  }

  /// The longest path through the layers that stages have for all cuts in the windows, with the cheapest transfers over
  /// these cuts and the least recomputation.
  double longest_within(const Windows& windows) {
    std::vector<PartSums> times(stages_);
    std::vector<double> after(stages_, 0), last(stages_, 0);
    const auto least_begin = [&](std::size_t s, const auto& value) {
      double least = value(windows.first[s]);
      for (std::size_t i = windows.first[s] + 1; i <= windows.last[s]; ++i) least = std::min(least, value(i));
      return least;
    };
    for (std::size_t s = 0; s < stages_; ++s) {
      const std::size_t begin = windows.last[s], end = s + 1 < stages_ ? windows.first[s + 1] : layers_.size();
      if (begin < end) {
        times[s] = up_to_[end].parts;
        times[s].add(up_to_[begin].parts, -1);
        after[s] = up_to_[end].after - up_to_[begin].after;
        times[s][TaskPart::again] = again_within_memory(s, begin, end);
      }
      if (s + 1 < stages_)
        times[s][TaskPart::onward] = least_begin(s + 1, [&](std::size_t i) { return onward_[s][i - 1]; });
      if (s > 0) times[s][TaskPart::back] = least_begin(s, [&](std::size_t i) { return back_[s - 1][i - 1]; });
      if (rules_.own_sums.empty()) continue;
      after[s] += least_begin(s, [&](std::size_t i) { return rules_.own_sums[i] ? sums_.of_stage : 0; });
      last[s] = least_begin(s, [&](std::size_t i) { return rules_.own_sums[i] ? last_sum(i) : 0; });
    }
    const std::vector<double> ends = graph_.ends(times);
    double longest = 0;
    for (std::size_t e = 0; e < ends.size(); ++e)
      longest = std::max(longest, ends[e] + time_after(graph_.ends()[e], after, last));
    return longest;
  }

  /// The stage before which the cut's window has the most work; nothing if every window has one layer.
  std::optional<std::size_t> widest(const Windows& windows) const {
    std::optional<std::size_t> widest;
    double most = -1;
    for (std::size_t s = 1; s < stages_; ++s) {
      if (windows.first[s] == windows.last[s]) continue;
      PartSums work = up_to_[windows.last[s]].parts;
      work.add(up_to_[windows.first[s]].parts, -1);
      const double time = work[TaskPart::forward] + work[TaskPart::input_gradient] + work[TaskPart::weight_gradient];
      if (time > most) widest = s;
      most = std::max(most, time);
    }
    return widest;
  }

  /// Branch and bound: halves a window of the part with the least bound. Ends if that part has one layer per cut, after
  /// `most` parts, or after as much work as the rounds.
  void branch(ScheduleBound& result, Nanoseconds enough, std::size_t most, double slack) {
    up_to_.assign(1, {.levels = std::vector<LayerTimes::Level>(layers_.front().levels.size())});
    cheapest_ = std::numeric_limits<double>::infinity();
    for (const LayerTimes& layer : layers_) {
      up_to_.push_back(up_to_.back());
      up_to_.back().add(layer, 1);
      const LayerTimes::Level& none = layer.levels.front();
      for (const LayerTimes::Level& level : layer.levels)
        if (level.held < none.held)
          cheapest_ = std::min(cheapest_, (level.again - none.again) / (none.held - level.held));
    }
    const auto by_bound = [](const Windows& one, const Windows& other) { return one.bound > other.bound; };
    std::vector<Windows> open{all_cuts()};
    open.front().bound = longest_within(open.front());
    const double aim = static_cast<double>(enough.count) * (1 + kNear) + slack;
    const std::uint64_t limit = result.work + std::max(result.work, kSmall);
    double least = aim;
    Rising rising{kFewParts};
    for (std::size_t parts = 0; !open.empty(); least = aim) {
      std::ranges::pop_heap(open, by_bound);
      const Windows whole = std::move(open.back());
      open.pop_back();
      least = whole.bound;
      const std::optional<std::size_t> cut = widest(whole);
      if (!cut || parts >= most || result.work > limit || rising.stalls(least)) break;
      const std::size_t middle = (whole.first[*cut] + whole.last[*cut]) / 2;
      for (const bool later : {false, true}) {
        Windows part = whole;
        (later ? part.first : part.last)[*cut] = middle + (later ? 1 : 0);
        for (std::size_t s = *cut + 1; s < stages_; ++s) part.first[s] = std::max(part.first[s], part.first[s - 1] + 1);
        for (std::size_t s = *cut; s-- > 0;) part.last[s] = std::min(part.last[s], part.last[s + 1] - 1);
        ++parts;
        result.work += 3 * graph_.size();
        part.bound = std::max(whole.bound, longest_within(part));
        for (const auto& [sum, dual] : duals_) {
          if (part.bound >= aim) break;
          result.work += 3 * stages_ * layers_.size();
          part.bound = std::max(part.bound, least_within(part, dual));
        }
        if (part.bound >= aim) continue;
        open.push_back(std::move(part));
        std::ranges::push_heap(open, by_bound);
      }
    }
    raise(result, std::min(least, aim), slack);  // `least` is infinite if no cuts fit in memory
  }

  /// Adds cuts with their costs, unless they are known, and sets last_cuts_.
  void keep(Cuts cuts) {
    for (last_cuts_ = 0; last_cuts_ < cuts_.size(); ++last_cuts_)
      if (cuts_[last_cuts_].begins == cuts.begins && cuts_[last_cuts_].levels == cuts.levels) return;
    std::vector<double> resident(p_, 0), gradients(stages_, 0), held(stages_, 0);
    for (std::size_t s = 0; s < stages_; ++s) {
      const std::size_t begin = cuts.begins[s], end = s + 1 < stages_ ? cuts.begins[s + 1] : layers_.size();
      LayerTimes stage;
      for (std::size_t i = begin; i < end; ++i) {
        const LayerTimes::Level& level = layers_[i].levels[cuts.levels[i]];
        stage.add(layers_[i], 1);
        stage.parts[TaskPart::again] += level.again;
        held[s] += level.held;
      }
      if (s + 1 < stages_) stage.parts[TaskPart::onward] = onward_[s][end - 1];
      if (s > 0) stage.parts[TaskPart::back] = back_[s - 1][begin - 1];
      resident[graph_.device(s)] += stage.resident;
      gradients[s] = stage.gradients;
      const bool own = !rules_.own_sums.empty() && rules_.own_sums[begin];
      cuts.times.push_back(stage.parts);
      cuts.after.push_back(stage.after + (own ? sums_.of_stage : 0));
      cuts.last.push_back(own ? last_sum(begin) : 0);
    }
    each_instant([&](std::size_t i, const ScheduleGraph::Held& instant) {
      double bytes = resident[i];
      for (std::size_t c = 0; c < like_.chunks; ++c)
        bytes += static_cast<double>(instant.microbatches[c]) * held[graph_.stage(i, c)] +
                 static_cast<double>(instant.gradients[c]) * gradients[graph_.stage(i, c)];
      cuts.bytes.push_back(bytes);
    });
    cuts_.push_back(std::move(cuts));
  }

  /// Time that follows an end.
  static double time_after(const ScheduleGraph::End& end, const std::vector<double>& after,
                           const std::vector<double>& last) {
    double sum = end.last_sum ? last[*end.last_sum] : 0;
    for (const std::size_t s : end.stages) sum += after[s];
    return sum;
  }
  double length(const Path& path, const Cuts& cuts) const {
    double sum = time_after(graph_.ends()[path.end], cuts.after, cuts.last);
    for (std::size_t s = 0; s < stages_; ++s) sum += path.counts[s].product(cuts.times[s]);
    return sum;
  }

  /// The weights and prices that maximize the minimum over the cuts found so far; `value` is this maximum.
  Dual best_dual_of_cuts() {
    LinearProgram program;
    std::uint32_t prices = 0;
    each_instant([&](std::size_t, const ScheduleGraph::Held&) {
      program.add_column(0, 0, kMostPrice);
      ++prices;
    });
    const std::uint32_t least = program.add_column(-1, -LinearProgram::kInfinity, LinearProgram::kInfinity);
    std::vector<LinearProgram::Term> whole;
    for (std::size_t k = 0; k < paths_.size(); ++k)
      whole.push_back({program.add_column(0, 0, LinearProgram::kInfinity), 1});
    program.add_row(1, 1, whole);
    for (Cuts& cuts : cuts_) {
      while (cuts.lengths.size() < paths_.size()) cuts.lengths.push_back(length(paths_[cuts.lengths.size()], cuts));
      std::vector<LinearProgram::Term> row{{least, 1}};
      for (std::uint32_t k = 0; k < prices; ++k) row.push_back({k, 1 - cuts.bytes[k] / room_});
      for (std::size_t k = 0; k < paths_.size(); ++k) row.push_back({whole[k].column, -cuts.lengths[k] / unit_});
      program.add_row(-LinearProgram::kInfinity, 0, row);
    }
    LinearSolution solution = solve_on(program, basis_of_cuts_);
    solution.prices.clear();
    return read(solution);
  }

  /// Adds the longest path to each end for these cuts, if it is longer than `least`.
  void learn_paths_of(const Cuts& cuts, double least) {
    const std::vector<double> ends = graph_.ends(cuts.times);
    for (std::size_t e = 0; e < ends.size(); ++e)
      if (ends[e] + time_after(graph_.ends()[e], cuts.after, cuts.last) > least * (1 + kNear))
        paths_.push_back({graph_.longest_path(graph_.ends()[e]), e});
  }

  template <class Visit>
  void each_instant(const Visit& visit) const {
    for (std::size_t i = 0; room_ > 0 && i < p_; ++i)
      for (const auto& instant : graph_.instants(i)) visit(i, instant);
  }

  const PlanCosts& costs_;
  const ParallelPlan& like_;
  const std::size_t p_, stages_;
  const std::vector<LayerCost> known_;
  const TaskRules& rules_;
  SumsOfGradients sums_;
  ScheduleGraph graph_;
  std::vector<LayerTimes> layers_;
  LayerTimes between_;                              // the mean of the layers between the first and the last
  std::vector<std::vector<double>> onward_, back_;  // transfer times, by stage and layer before the cut
  double room_ = 0;                                 // bytes of a device; 0: unlimited
  double unit_ = 0;                                 // time unit that scales the linear programs' numbers to about 1
  std::vector<Row> rows_;
  std::vector<Path> paths_;
  std::vector<Cuts> cuts_;
  SimplexBasis basis_, basis_of_cuts_;          // of the last round's linear programs
  std::size_t last_cuts_ = 0;                   // index of the cuts found last
  std::vector<std::pair<double, Dual>> duals_;  // the best duals, each with its minimum over all cuts
  std::vector<LayerTimes> up_to_;               // prefix sums over layers
  double cheapest_ = 0;                         // least recompute time per freed byte of a microbatch; may be infinite
};

}  // namespace

ScheduleBound schedule_bound(const PlanCosts& costs, const ParallelPlan& like, Nanoseconds enough, std::size_t rounds,
                             const TaskRules& rules) {
  const std::size_t microbatches = costs.batch / like.data / like.microbatch;
  if (like.devices_in_row() < 2 || like.stages() * microbatches * 3 > kMostTasks) return {Nanoseconds{0}, 0};
  return BoundOfSchedule{costs, like, rules}.run(enough, rounds);
}

}  // namespace trainyard
