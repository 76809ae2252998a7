#include "trainyard/place/auto/local_search.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/core/portable_math.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/simulate/critical_path.hpp"

namespace trainyard {
namespace {

/// Kinds of moves are drawn by a moving average of their rewards (factor kMemory) plus kLeastWeight, so none dies out.
constexpr double kLeastWeight = 0.05, kMemory = 0.98;
constexpr double kAnywhereShare = 0.25;
/// The price of memory rises by 2^(1/10) with each move that ends with excess: it doubles in ten moves.
constexpr double kDearer = 1.0717734625;
constexpr auto kLongest = static_cast<double>(kLongestTime.count) / 4;

template <class T>
const T& any_of(Random& random, const std::vector<T>& list) {
  return list[random.below(list.size())];
}

/// The schedule without its placer's plan, which does not hold after a change.
Schedule without_plan(Schedule schedule) {
  schedule.plan.reset();
  return schedule;
}

}  // namespace

LocalSearch::LocalSearch(const Problem& problem, const std::vector<Clusters>& levels, bool memory_binds, Schedule start,
                         Random random)
    : problem_(problem),
      levels_(levels),
      memory_binds_(memory_binds),
      random_(random),
      delta_(problem, without_plan(std::move(start))),
      at_most_(problem.device_count()) {
  weight_.fill(0.5);
  path_interval_ = std::max<std::uint64_t>(1, problem.op_count() / 256);
  current_ = {present_excess(), delta_.makespan()};
  if (memory_binds) {
    double most = 1;
    for (const DeviceId device : problem.devices())
      if (const auto& capacity = problem.cluster().device(device).memory)
        most = std::max(most, static_cast<double>(capacity->count));
    price_ = static_cast<double>(current_.makespan.count) / most;
  }
  best_ = delta_.schedule();
  best_outcome_ = current_;
}

void LocalSearch::restart(Schedule start) {
  delta_ = DeltaSimulation{problem_, std::move(start)};
  current_ = {present_excess(), delta_.makespan()};
  changed_since_path_ = true;
  path_read_at_ = 0;
  if (current_ < best_outcome_) {
    best_ = delta_.schedule();
    best_outcome_ = current_;
  }
}

void LocalSearch::restart_if_better(Schedule start) {
  ++evaluations_;
  if (Evaluator{problem_}.outcome(start) < best_outcome_) restart(std::move(start));
}

void LocalSearch::relink(const Placement& target, std::size_t steps) {
  for (std::size_t i = 0; i < steps; ++i) {
    const Clusters& clusters = levels_[random_.below(levels_.size())];
    const OpId op{random_.below(problem_.op_count())};
    const Placement& placement = delta_.schedule().placement;
    if (placement[op] == target[op]) continue;
    moving_.clear();
    for (const OpId each : clusters.ops[clusters.of[op]])
      if (target[each] == target[op] && placement[each] != target[op]) moving_.push_back(each);
    const DeltaResult result =
        delta_.try_move(moving_, target[op], current_.makespan + Nanoseconds{current_.makespan.count / 20});
    ++evaluations_;
    if (!result.complete()) continue;
    const Outcome now = outcome_of(result);
    if (now.excess > current_.excess) {
      delta_.reject();
      continue;
    }
    delta_.accept();
    current_ = now;
    changed_since_path_ = true;
    if (now < best_outcome_) {
      best_ = delta_.schedule();
      best_outcome_ = now;
    }
  }
}

void LocalSearch::run(const Effort& effort, double heat) {
  const std::uint64_t end = evaluations_ + effort.left();
  std::size_t idle = 0;  // moves in a row that could not be made
  for (std::uint64_t round = 0; evaluations_ < end && idle < 1000; ++round) {
    if (round % 16 == 0 && effort.late()) return;
    if (critical_ops_.empty() || (changed_since_path_ && evaluations_ >= path_read_at_ + path_interval_)) read_path();
    const double each = heat / static_cast<double>(critical_ops_.size());
    const double slack = each * static_cast<double>(current_.makespan.count) * -portable_log(1 - random_.uniform());
    idle = propose(slack) ? 0 : idle + 1;
  }
}

LocalSearch::Kind LocalSearch::draw_kind() {
  if (current_.excess.count > 0 && random_.chance(0.5)) return relieve;
  if (random_.chance(kAnywhereShare)) return anywhere;
  const bool strict = delta_.schedule().policy == Policy::strict && !blocks_.empty();
  double sum = 0;
  std::array<double, kKinds> share{};
  constexpr std::array kCritical{op_away, transfer_home, cluster_away, block_swap, block_shift, turn};
  for (const Kind kind : kCritical) {
    if (!strict && (kind == block_swap || kind == block_shift)) continue;
    // A restart may have changed the policy since the path was read.
    if (kind == turn && (waits_.empty() || delta_.schedule().priority.empty())) continue;
    if (kind == transfer_home && critical_transfers_.empty()) continue;
    sum += share[kind] = kLeastWeight + weight_[kind];
  }
  double drawn = random_.uniform() * sum;
  for (const Kind kind : kCritical) {
    drawn -= share[kind];
    if (share[kind] > 0 && drawn <= 0) return kind;
  }
  return op_away;
}

bool LocalSearch::propose(double slack) {
  const Kind kind = draw_kind();
  bool tried = false;
  // Until a schedule fits, excess comes first: a schedule with excess may become longer.
  const bool repairs = best_outcome_.excess.count > 0;
  const double most = cost_of(current_) + slack;
  const Nanoseconds limit = repairs && current_.excess.count > 0
                                ? DeltaSimulation::kNoLimit
                                : Nanoseconds{static_cast<std::int64_t>(std::min(most, kLongest))};
  const DeltaResult result = try_move(kind, limit, tried);
  if (!tried) return false;
  ++evaluations_;
  double reward = 0;
  if (result.complete()) {
    const Outcome now = outcome_of(result);
    const bool take = repairs && now.excess != current_.excess ? now.excess < current_.excess : cost_of(now) <= most;
    if (!repairs && (current_.excess.count > 0 || now.excess.count > 0))
      price_ = std::clamp(price_ * ((take ? now : current_).excess.count > 0 ? kDearer : 1 / kDearer), 1 / kLongest,
                          kLongest);
    if (take) {
      delta_.accept();
      if (now < current_) reward = 1;
      current_ = now;
      changed_since_path_ = true;
      if (now < best_outcome_) {
        reward = 4;
        best_ = delta_.schedule();
        best_outcome_ = now;
      }
    } else {
      delta_.reject();
    }
  }
  weight_[kind] = kMemory * weight_[kind] + (1 - kMemory) * reward;
  return true;
}

DeltaResult LocalSearch::try_move(Kind kind, Nanoseconds limit, bool& tried) {
  DeltaResult result{};
  const OpId critical = any_of(random_, critical_ops_);
  switch (kind) {
    case op_away:
      tried = move_cluster(0, critical, std::nullopt, limit, result);
      break;
    case cluster_away:
      tried = move_cluster(random_.below(levels_.size()), critical, std::nullopt, limit, result);
      break;
    case transfer_home: {
      const CriticalTransfer& transfer = any_of(random_, critical_transfers_);
      const auto& placement = delta_.schedule().placement;
      const bool to_producer = random_.chance(0.5);
      const OpId mover = to_producer ? transfer.consumer : transfer.producer;
      const OpId other = to_producer ? transfer.producer : transfer.consumer;
      const std::size_t level = random_.chance(0.5) ? 0 : random_.below(levels_.size());
      tried = placement[mover] != placement[other] && move_cluster(level, mover, placement[other], limit, result);
      break;
    }
    case block_swap:
    case block_shift:
      tried = try_block(kind, limit, result);
      break;
    case turn:
      tried = try_turn(limit, result);
      break;
    case anywhere: {
      const OpId op{random_.below(problem_.op_count())};
      const std::size_t level = random_.chance(0.5) ? 0 : random_.below(levels_.size());
      tried = move_cluster(level, op, std::nullopt, limit, result);
      break;
    }
    case relieve: {
      // From the fullest device, most often to the one with the most room.
      const auto room = [&](DeviceId device) {
        const auto& capacity = problem_.cluster().device(device).memory;
        return capacity ? capacity->count - at_most_[device.index()].count : kLongestTime.count;
      };
      const auto devices = problem_.devices();
      const DeviceId fullest = *std::ranges::min_element(devices, {}, room);
      const DeviceId emptiest = random_.chance(0.7) ? *std::ranges::max_element(devices, {}, room)
                                                    : DeviceId{random_.below(problem_.device_count())};
      const auto& placement = delta_.schedule().placement;
      OpId op = OpId{random_.below(problem_.op_count())};
      for (int i = 0; i < 32 && placement[op] != fullest; ++i) op = OpId{random_.below(problem_.op_count())};
      tried = emptiest != placement[op] && move_cluster(random_.below(levels_.size()), op, emptiest, limit, result);
      break;
    }
    case kKinds:
      break;
  }
  return result;
}

DeviceId LocalSearch::likely_device(OpId op) {
  const Graph& graph = problem_.graph();
  const auto& placement = delta_.schedule().placement;
  choices_.clear();
  if (random_.chance(0.6)) {
    for (const TensorId tensor : graph.inputs(op))
      if (const DeviceId device = placement[graph.producer(tensor)]; device != placement[op])
        choices_.push_back(device);
    for (const TensorId tensor : graph.outputs(op))
      for (const OpId consumer : graph.consumers(tensor)) {
        if (choices_.size() >= 16) break;  // enough to draw from
        if (placement[consumer] != placement[op]) choices_.push_back(placement[consumer]);
      }
  }
  if (!choices_.empty()) return any_of(random_, choices_);
  return DeviceId{random_.below(problem_.device_count())};
}

bool LocalSearch::move_cluster(std::size_t level, OpId op, std::optional<DeviceId> to, Nanoseconds limit,
                               DeltaResult& result) {
  const Clusters& clusters = levels_[level];
  const ClusterId cluster = clusters.of[op];
  const DeviceId target = to ? *to : likely_device(op);
  if (!std::ranges::binary_search(clusters.devices[cluster], target)) return false;
  const auto& placement = delta_.schedule().placement;
  const DeviceId from = placement[op];
  const bool only_from = random_.chance(0.5);  // the cluster's ops on the op's device, or all of them
  moving_.clear();
  for (const OpId each : clusters.ops[cluster])
    if (placement[each] != target && (!only_from || placement[each] == from)) moving_.push_back(each);
  if (moving_.empty()) return false;
  result = delta_.try_move(moving_, target, limit);
  return true;
}

bool LocalSearch::try_block(Kind kind, Nanoseconds limit, DeltaResult& result) {
  const Block& block = any_of(random_, blocks_);
  const Schedule& schedule = delta_.schedule();
  const std::size_t length = block.last - block.first + 1;
  const OpId first = critical_ops_[block.first], last = critical_ops_[block.last];
  const DeviceId device = schedule.placement[first];
  if (kind == block_swap) {
    const bool front = random_.chance(0.5);
    const OpId a = front ? first : critical_ops_[block.last - 1];
    const OpId b = front ? critical_ops_[block.first + 1] : last;
    if (schedule.placement[a] != schedule.placement[b]) return false;
    result = delta_.try_swap(a, b, limit);
    return true;
  }
  const OpId op = critical_ops_[block.first + random_.below(length)];
  if (schedule.placement[op] != device) return false;
  if (random_.chance(0.5)) {
    if (op == last || schedule.placement[last] != device) return false;
    result = delta_.try_move(op, device, last, limit);
    return true;
  }
  if (op == first) return false;
  const auto& order = schedule.order[device];
  const auto at = std::ranges::find(order, first);
  const std::optional<OpId> behind = at == order.begin() ? std::nullopt : std::optional{*(at - 1)};
  if (behind == op) return false;
  result = delta_.try_move(op, device, behind, limit);
  return true;
}

/// Puts the waiting op right before the holder, or the holder right behind it, by a priority halfway to the next one.
bool LocalSearch::try_turn(Nanoseconds limit, DeltaResult& result) {
  const Wait& wait = any_of(random_, waits_);
  const IdMap<OpId, double>& priority = delta_.schedule().priority;
  const bool raise = random_.chance(0.5);
  const double past = priority[raise ? wait.holder : wait.waiting];
  std::optional<double> next;
  for (const double each : priority)
    if (raise ? each > past && (!next || each < *next) : each < past && (!next || each > *next)) next = each;
  const double value = next ? past + (*next - past) / 2 : past + (raise ? 1 : -1);
  result = delta_.try_priority(raise ? wait.waiting : wait.holder, value, limit);
  return true;
}

double LocalSearch::cost_of(const Outcome& outcome) const {
  return static_cast<double>(outcome.makespan.count) + price_ * static_cast<double>(outcome.excess.count);
}

Outcome LocalSearch::outcome_of(const DeltaResult& result) {
  return {memory_binds_ ? present_excess() : Bytes{0}, result.makespan};
}

Bytes LocalSearch::present_excess() {
  if (!memory_binds_) return Bytes{0};
  // An upper bound is cheap, and most often enough: the bytes that a device would hold if nothing were ever released.
  const Graph& graph = problem_.graph();
  const auto& placement = delta_.schedule().placement;
  std::ranges::fill(at_most_, Bytes{0});
  std::vector<Bytes> workspace(at_most_.size());
  for (const OpId op : problem_.ops()) {
    const std::size_t at = placement[op].index();
    at_most_[at] += problem_.resident_bytes(op);
    workspace[at] = std::max(workspace[at], graph.workspace_bytes(op));
    for (const TensorId tensor : graph.outputs(op)) {
      at_most_[at] += graph.bytes(tensor);
      choices_.clear();
      for (const OpId consumer : graph.consumers(tensor))
        if (const DeviceId device = placement[consumer];
            device.index() != at && std::ranges::find(choices_, device) == choices_.end()) {
          choices_.push_back(device);
          at_most_[device.index()] += graph.bytes(tensor);
        }
    }
  }
  bool certain = true;
  for (const DeviceId device : problem_.devices()) {
    at_most_[device.index()] += workspace[device.index()];
    const auto& capacity = problem_.cluster().device(device).memory;
    certain = certain && (!capacity || at_most_[device.index()] <= *capacity);
  }
  if (certain) return Bytes{0};
  const MemoryPeaks& peaks = delta_.peaks();
  for (const DeviceId device : problem_.devices()) at_most_[device.index()] = peaks.peak[device];
  return excess_of(problem_, peaks);
}

void LocalSearch::read_path() {
  const Timeline timeline = delta_.timeline();
  const Schedule& schedule = delta_.schedule();
  const auto path = critical_path(problem_, schedule, timeline);
  critical_ops_.clear();
  critical_transfers_.clear();
  blocks_.clear();
  waits_.clear();
  OpId last;  // op of the step before, or the reader of its transfer
  const auto see = [&](const PathStep& step, OpId op) {
    const bool waits = step.cause == PathStep::Cause::resource && !last.is_none() && !op.is_none() && op != last;
    if (waits && schedule.by_priority()) waits_.push_back({last, op});
    last = op;
  };
  bool in_block = false;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const PathStep& step = path[i];
    if (step.op.is_none()) {
      in_block = false;
      const Transfer& transfer = timeline.transfers[step.transfer];
      const auto consumers = problem_.graph().consumers(transfer.tensor);
      OpId reader;
      if (i + 1 < path.size() && path[i + 1].cause == PathStep::Cause::data) reader = path[i + 1].op;
      for (const OpId consumer : consumers)
        if (reader.is_none() && schedule.placement[consumer] == transfer.to) reader = consumer;
      if (!reader.is_none()) critical_transfers_.push_back({problem_.graph().producer(transfer.tensor), reader});
      see(step, reader);
      continue;
    }
    see(step, step.op);
    const bool goes_on =
        step.cause == PathStep::Cause::resource && !critical_ops_.empty() && i > 0 && !path[i - 1].op.is_none();
    critical_ops_.push_back(step.op);
    if (!goes_on) {
      in_block = false;
    } else if (in_block) {
      ++blocks_.back().last;
    } else {
      blocks_.push_back({critical_ops_.size() - 2, critical_ops_.size() - 1});
      in_block = true;
    }
  }
  if (critical_ops_.empty()) critical_ops_.push_back(OpId{0});
  changed_since_path_ = false;
  path_read_at_ = evaluations_;
}

}  // namespace trainyard
