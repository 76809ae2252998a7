#include "trainyard/place/flexflow/flexflow.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/fastt/os_dpos.hpp"
#include "trainyard/place/flexflow/placement_chain.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/simple/expert.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/split_op.hpp"
#include "trainyard/simulate/edited_simulation.hpp"

namespace trainyard {
namespace {

constexpr std::uint64_t kCalibrationSamples = 100;
constexpr std::uint64_t kLongestRound = 1'000;

/// How an op of the input graph may be split.
struct Splittable {
  OpId op;
  std::string name;
  std::size_t batch = 0, channel = 0;  // parts at most; 0: cannot be split along it
};

std::vector<Splittable> splittable_ops(const Problem& problem) {
  std::vector<Splittable> list;
  for (const OpId op : problem.ops()) {
    if (problem.group_ops(problem.group(op)).size() > 1) continue;  // its parts could not be separated
    const auto parts = [&](SplitDimension dimension) {
      const std::size_t most = std::min(most_parts(problem.graph(), op, dimension), problem.device_count());
      return most >= 2 ? most : 0;
    };
    Splittable each{op, std::string{problem.graph().name(op)}, parts(SplitDimension::batch),
                    parts(SplitDimension::channel)};
    if (each.batch + each.channel > 0) list.push_back(std::move(each));
  }
  return list;
}

struct Start {
  Problem input;  // with its replicas
  Placement placement;
};

/// A chain, with the graph that it is currently on.
class StrategySearch {
 public:
  StrategySearch(const Problem& problem, const Start& start, const FlexFlowOptions& options, const Random& random)
      : input_(start.input), options_(options), random_(random) {
    if (options.splits && problem.rewrites().empty()) splittable_ = splittable_ops(input_);
    chain_ = new_chain(*problem_, start.placement);
    find_splittable();
    remember();
  }

  void calibrate(std::size_t samples, const std::function<bool()>& stop) {
    beta_ = options_.beta ? *options_.beta : chain_->calibrated_beta(samples, stop);
    chain_->set_beta(beta_);
  }
  void step() {
    if (!splittable_.empty() && random_.below(100) == 0)
      propose_split();
    else
      chain_->step();
  }
  void rewind() {
    remember();
    if (splits_ == best_splits_) {
      chain_->rewind();
      return;
    }
    replace(best_splits_, with(best_splits_), best_.placement);
  }
  void remember() {
    if (chain_->best_outcome() >= best_outcome_ && !best_.placement.empty()) return;
    best_outcome_ = chain_->best_outcome();
    best_splits_ = splits_;
    best_ = Schedule{.placement = chain_->best(), .rewrites = problem_->rewrites()};
  }

  const Schedule& best() const { return best_; }
  const Outcome& best_outcome() const { return best_outcome_; }
  std::uint64_t evaluations() const { return spent_ + chain_->evaluations(); }

 private:
  using Splits = std::map<std::string, SplitOp>;  // by op

  std::unique_ptr<PlacementChain> new_chain(const Problem& problem, const Placement& placement) {
    auto chain = std::make_unique<PlacementChain>(problem, placement, Random{random_.next()});
    chain->set_beta(beta_);
    chain->set_propagation(options_.propagation);
    return chain;
  }

  std::unique_ptr<Problem> with(const Splits& splits) const {
    std::vector<Rewrite> all;
    for (const auto& [op, split] : splits) all.emplace_back(split);
    return std::make_unique<Problem>(apply_rewrites(input_, all));
  }

  void replace(Splits splits, std::unique_ptr<Problem> problem, const Placement& placement) {
    remember();
    spent_ += chain_->evaluations();
    auto chain = new_chain(*problem, placement);
    chain_ = std::move(chain);  // before the problem to which the old chain refers
    problem_ = std::move(problem);
    splits_ = std::move(splits);
    find_splittable();
    remember();
  }

  /// Finds where the ops that stand for each splittable op are in the current graph.
  void find_splittable() {
    edited_.reset();
    if (problem_->runs_in_full()) splittable_.clear();  // EditedSimulation has none
    if (splittable_.empty()) return;
    first_.clear();
    std::size_t added = 0;  // by the splits of earlier ops
    for (const Splittable& each : splittable_) {
      const auto split = splits_.find(each.name);
      first_.emplace_back(each.op.index() + added);
      if (split != splits_.end())
        added += split_op_specs(input_.graph(), each.op, split->second.dimension, split->second.parts).size() - 1;
    }
  }
  std::size_t count_of(std::size_t number) const {
    const std::size_t next = number + 1 < splittable_.size() ? first_[number + 1].index() : problem_->op_count();
    const std::size_t until = number + 1 < splittable_.size() ? splittable_[number + 1].op.index() : input_.op_count();
    return next - first_[number].index() - (until - splittable_[number].op.index()) + 1;
  }

  void propose_split() {
    const std::size_t number = random_.below(splittable_.size());
    const Splittable& op = splittable_[number];
    // Uniform among: whole, 2 to `batch` parts, 2 to `channel` parts.
    const std::size_t batches = op.batch > 0 ? op.batch - 1 : 0, channels = op.channel > 0 ? op.channel - 1 : 0;
    const std::size_t drawn = random_.below(1 + batches + channels);
    Splits splits = splits_;
    GraphEdit edit{.first = first_[number], .count = count_of(number), .by = {}, .ordered = {}};
    if (drawn == 0) {
      splits.erase(op.name);
      edit.by = {spec_of(input_.graph(), op.op)};
    } else {
      const bool batch = drawn <= batches;
      const SplitDimension dimension = batch ? SplitDimension::batch : SplitDimension::channel;
      const std::size_t parts = batch ? drawn + 1 : drawn - batches + 1;
      splits[op.name] = {op.name, dimension, parts};
      edit.by = split_op_specs(input_.graph(), op.op, dimension, parts);
    }
    ++spent_;
    if (splits == splits_ || edit.by.empty()) return;
    const Outcome& now = chain_->outcome();
    const Nanoseconds most = PlacementChain::longest_accepted(now.makespan, beta_, best_outcome_.makespan, random_);
    const std::optional<Nanoseconds> makespan = tried(op.name, edit);
    if (!makespan || (now.excess.count == 0 && *makespan > most)) return;
    std::unique_ptr<Problem> next = with(splits);
    const Outcome outcome = Evaluator{*next}.outcome(Schedule{.placement = placement_});
    assert(outcome.makespan == *makespan);
    if (outcome.excess != now.excess ? outcome.excess > now.excess : outcome.makespan > most) return;
    replace(std::move(splits), std::move(next), placement_);
  }

  /// Makespan of the current placement on the edited graph, with the new ops placed; none if they cannot be placed.
  std::optional<Nanoseconds> tried(const std::string& op, GraphEdit& edit) {
    if (!edited_) edited_.emplace(*problem_);
    const std::string part = op + "/part";
    for (std::size_t i = 0; i < edit.by.size(); ++i)
      if (edit.by[i].name == op || edit.by[i].name.starts_with(part)) edit.ordered.push_back(i);
    try {
      edited_->replace(edit);
    } catch (const InputError&) {  // a part that no device can run, or times that add up to too much
      return std::nullopt;
    }
    const Placement& old = chain_->placement();
    const Problem& piece = edited_->piece();
    const std::size_t first = edit.first.index();
    placement_.assign(edited_->op_count(), DeviceId::none());
    for (std::size_t i = 0; i < first; ++i) placement_[OpId{i}] = old[OpId{i}];
    for (std::size_t i = first + edit.count; i < old.size(); ++i)
      placement_[OpId{i - edit.count + edit.by.size()}] = old[OpId{i}];
    DeviceId home = DeviceId::none();  // of the first part
    for (std::size_t i = 0; i < edit.count && home.is_none(); ++i) {
      const std::string_view name = problem_->graph().name(OpId{first + i});
      if (name == op || name.starts_with(part)) home = old[OpId{first + i}];
    }
    const auto able = [&](std::size_t i) {
      able_.clear();
      for (const DeviceId device : problem_->devices())
        if (piece.can_run(OpId{i}, device)) able_.push_back(device);
    };
    bool any_part = false;
    for (std::size_t i = 0; i < edit.by.size(); ++i) {
      if (!edit.by[i].name.starts_with(part)) continue;
      able(i);
      const DeviceId device = able_[random_.below(able_.size())];
      placement_[OpId{first + i}] = device;
      if (!any_part) home = device;
      any_part = true;
    }
    for (std::size_t i = 0; i < edit.by.size(); ++i) {
      DeviceId& device = placement_[OpId{first + i}];
      if (!device.is_none()) continue;
      able(i);
      device = piece.can_run(OpId{i}, home) ? home : able_.front();
    }
    const Nanoseconds makespan = edited_->makespan(placement_);
    edited_->restore();
    return makespan;
  }

  const Problem input_;
  const FlexFlowOptions& options_;
  Random random_;
  double beta_ = PlacementChain::kGreedy;
  std::vector<Splittable> splittable_;  // by id
  std::vector<OpId> first_;             // by its number: first op that stands for it in the current graph
  Splits splits_;
  std::unique_ptr<Problem> problem_{std::make_unique<Problem>(input_)};
  std::unique_ptr<PlacementChain> chain_;   // refers to the problem
  std::uint64_t spent_ = 0;                 // evaluations of earlier chains, and of splits
  std::optional<EditedSimulation> edited_;  // of the problem
  Placement placement_;                     // on the edited graph
  std::vector<DeviceId> able_;
  Schedule best_;
  Splits best_splits_;
  Outcome best_outcome_{};
};

/// The devices of the kind on which the groups that can run anywhere take the least time, since replicas are for equal
/// devices.
std::vector<DeviceId> alike_devices(const Problem& problem) {
  const std::vector<double> times = common_times(problem);
  const auto fastest = static_cast<std::size_t>(std::ranges::min_element(times) - times.begin());
  std::vector<DeviceId> devices;
  for (const DeviceId device : problem.devices())
    if (problem.column(device) == fastest) devices.push_back(device);
  return devices;
}

/// Replicas on the equal devices; if there is only one, the graph is no training graph, or replicas do not fit, an
/// expert's placement of the graph as it is. Throws OutOfTime once `stop` returns true.
Start data_parallel_start(const Problem& problem, bool splits, const std::function<bool()>& stop) {
  const std::vector<DeviceId> devices = alike_devices(problem);
  const auto kind = splits ? OsDposOptions::Input::fitting : OsDposOptions::Input::graph;
  const auto input = fastt_input(problem, kind, stop);
  if (devices.size() < 2 || !input || input->replicas < 2) return {problem, place_expert(problem).placement};
  Checkpoint checkpoint{stop};
  Start start{apply_rewrites(problem, {Replicate{.replicas = devices.size()}}, checkpoint), {}};
  const Problem& parallel = start.input;
  start.placement = data_parallel_schedule(parallel, devices.size()).placement;
  checkpoint();
  if (devices.size() == problem.device_count()) return start;
  // Replica r is on device r, and shared ops are anywhere: the equal devices take the places of these devices.
  const auto able = group_devices(parallel);
  for (const GroupId group : parallel.groups()) {
    const auto ops = parallel.group_ops(group);
    const DeviceId wanted = devices[start.placement[ops.front()].index() % devices.size()];
    const bool there = std::ranges::binary_search(able[group], wanted);
    for (const OpId op : ops) start.placement[op] = there ? wanted : able[group].front();
  }
  return start;
}

Placement random_placement(const Problem& problem, Random& random) {
  const auto able = group_devices(problem);
  Placement placement(problem.op_count());
  for (const GroupId group : problem.groups()) {
    const auto devices = able[group];
    const DeviceId device = devices[random.below(devices.size())];
    for (const OpId op : problem.group_ops(group)) placement[op] = device;
  }
  return placement;
}

}  // namespace

std::uint64_t flexflow_budget(const Problem& problem) {
  const std::uint64_t ops = problem.op_count();
  return std::max<std::uint64_t>(1'000, std::min(2'000'000 / ops, 100 * ops));
}

Schedule flexflow(const Problem& problem, const FlexFlowOptions& options, const PlaceOptions& run) {
  using From = FlexFlowOptions::Start;
  const Effort effort{run.budget.given() ? run.budget : Budget{.evaluations = flexflow_budget(problem)}, run.stop};
  const std::uint64_t budget = effort.left();
  std::vector<From> starts{options.start};
  if (options.start == From::both) starts = {From::data_parallel, From::random};
  const Nanoseconds bound = run.on_progress ? best_lower_bound(problem).value : Nanoseconds{0};
  std::optional<Schedule> best;
  Outcome best_outcome{};
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < starts.size() && !(best && effort.late()); ++i) {
    const double part = static_cast<double>(i + 1) / static_cast<double>(starts.size());
    const std::uint64_t end = budget == Effort::kUnlimited ? budget : budget * (i + 1) / starts.size();
    const std::uint64_t round = std::clamp<std::uint64_t>(
        (budget == Effort::kUnlimited ? kLongestRound * 100 : budget) / starts.size() / 100, 1, kLongestRound);
    const auto over = [&](std::uint64_t evaluations) { return evaluations >= end || effort.late(part); };
    Random random = Random::stream(run.seed, i);
    std::optional<Start> start;
    try {
      start = starts[i] == From::data_parallel
                  ? data_parallel_start(problem, run.rewrites, [&] { return effort.late(); })
                  : Start{problem, random_placement(problem, random)};
    } catch (const OutOfTime&) {
      if (i + 1 == starts.size()) throw;
      continue;
    }
    StrategySearch search{problem, *start, options, random};
    if (!over(before)) search.calibrate(std::min(kCalibrationSamples, budget / 10), [&] { return effort.late(part); });
    for (std::uint64_t next = search.evaluations() + round; !over(before + search.evaluations());) {
      search.step();
      if (search.evaluations() < next) continue;
      next = search.evaluations() + round;
      search.rewind();
      if (run.on_progress) {
        const Outcome& now = best && best_outcome < search.best_outcome() ? best_outcome : search.best_outcome();
        run.on_progress({now.makespan, now.excess.count == 0, bound, before + search.evaluations()});
      }
    }
    search.remember();
    before += search.evaluations();
    if (!best || search.best_outcome() < best_outcome) {
      best = search.best();
      best_outcome = search.best_outcome();
    }
  }
  best->search = Search{before, std::nullopt};
  return std::move(*best);
}

}  // namespace trainyard
