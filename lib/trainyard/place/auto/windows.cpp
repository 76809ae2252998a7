#include "trainyard/place/auto/windows.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/exact/window_search.hpp"
#include "trainyard/simulate/critical_path.hpp"

namespace trainyard {
namespace {

using detail::kUnplaced;

constexpr std::uint64_t kMostNodes = 600, kFewNodes = 100, kMostPerPlacement = 60;
constexpr std::size_t kLeastOps = 6;

}  // namespace

WindowSearch::WindowSearch(const Problem& problem, Random random)
    : problem_(problem), random_(random), evaluator_(problem) {}

std::uint64_t WindowSearch::least_evaluations() const {
  return 1 + kFewNodes * (kLeastOps + kMostOps) / 2 / problem_.op_count();
}

bool WindowSearch::run(Schedule& schedule, Outcome& outcome, const Effort& effort) {
  if (schedule.policy != Policy::strict || problem_.op_count() < 2 || problem_.device_count() > kMostDevices)
    return false;
  const std::uint64_t end = evaluations_ + effort.left();
  const Outcome before = outcome;
  read(schedule);
  std::size_t in_vain = 0;
  while (evaluations_ < end && in_vain < 2 * critical_.size() + 20) {
    if (effort.late()) break;
    const std::size_t most = std::min(kMostOps, by_start_.size());
    const std::size_t least = std::min(kLeastOps, most);
    const std::size_t count = least + random_.below(most - least + 1);
    const std::size_t centre = critical_[random_.below(critical_.size())], back = random_.below(count);
    const std::size_t first = std::min(centre - std::min(centre, back), by_start_.size() - count);
    const Nanoseconds makespan = outcome.makespan;
    if (try_window(schedule, outcome, first, count, end, effort)) read(schedule);
    in_vain = outcome.makespan < makespan ? 0 : in_vain + 1;
  }
  return outcome < before;
}

void WindowSearch::read(const Schedule& schedule) {
  const Graph& graph = problem_.graph();
  timeline_ = evaluator_.simulation().timeline(schedule);
  ++evaluations_;
  by_start_ = graph.topological_order();
  sort_by(by_start_, [&](OpId op) { return timeline_.ops[op].start; });
  position_.assign(problem_.op_count(), 0);
  for (std::uint32_t i = 0; i < by_start_.size(); ++i) position_[by_start_[i]] = i;
  first_transfer_.assign(graph.tensor_count() + 1, 0);
  for (const Transfer& transfer : timeline_.transfers) ++first_transfer_[transfer.tensor.index() + 1];
  for (std::size_t t = 1; t < first_transfer_.size(); ++t) first_transfer_[t] += first_transfer_[t - 1];

  tail_.assign(problem_.op_count(), 0);
  std::vector<std::int64_t> next(problem_.device_count(), 0);  // from the start of the device's next op to the end
  for (std::size_t i = by_start_.size(); i-- > 0;) {
    const OpId op = by_start_[i];
    const DeviceId device = schedule.placement[op];
    std::int64_t& tail = tail_[op];
    const auto rest = [&](OpId later) {
      return problem_.duration(later, schedule.placement[later]).count + tail_[later];
    };
    for (const TensorId tensor : graph.outputs(op))
      for (const OpId reader : graph.consumers(tensor)) {
        const DeviceId there = schedule.placement[reader];
        tail =
            std::max(tail, rest(reader) + (there == device ? 0 : problem_.transfer_time(tensor, device, there).count));
      }
    for (const OpId later : graph.before(op)) tail = std::max(tail, rest(later));
    if (problem_.duration(op, device).count == 0) continue;
    tail = std::max(tail, next[device.index()]);
    next[device.index()] = problem_.cluster().device(device).gap.count + rest(op);
  }
  critical_.clear();
  for (const PathStep& step : critical_path(problem_, schedule, timeline_))
    if (!step.op.is_none()) critical_.push_back(position_[step.op]);
}

detail::ExactWindow WindowSearch::window_of(const Schedule& schedule, std::size_t first, std::size_t count,
                                            std::int64_t& value) const {
  const std::size_t devices = problem_.device_count(), last = first + count;
  detail::ExactWindow window;
  window.ops.assign(by_start_.begin() + static_cast<std::ptrdiff_t>(first),
                    by_start_.begin() + static_cast<std::ptrdiff_t>(last));
  const std::vector<std::int64_t> next = surround(schedule, last, window);
  window.arrival.assign(count * devices, 0);
  window.beyond.assign(count * devices, 0);
  value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const OpId op = window.ops[i];
    const std::span beyond{&window.beyond[i * devices], devices};
    find_arrival(schedule, op, first, last, {&window.arrival[i * devices], devices});
    find_beyond(schedule, op, first, last, beyond);
    if (problem_.shortest(op).count > 0)
      for (std::size_t d = 0; d < devices; ++d) beyond[d] = std::max(beyond[d], next[d]);

    const bool stays = std::ranges::any_of(problem_.group_ops(problem_.group(op)),
                                           [&](OpId other) { return !within(other, first, last); });
    const DeviceId device = schedule.placement[op];
    window.fixed.push_back(stays ? static_cast<std::uint32_t>(device.index()) : kUnplaced);
    value = std::max(value, timeline_.ops[op].end.count + beyond[device.index()]);
  }
  return window;
}

/// Sets when devices and channels become free of work before the window, and the memory held by ops outside it.
/// Returns, by device, the time from the start of its first op behind the window to the end of the step, with the
/// device's gap.
std::vector<std::int64_t> WindowSearch::surround(const Schedule& schedule, std::size_t last,
                                                 detail::ExactWindow& window) const {
  const std::size_t devices = problem_.device_count(), first = last - window.ops.size();
  window.available.assign(devices + problem_.cluster().channel_count(), 0);
  window.held.assign(devices, 0);
  std::vector<std::int64_t> next(devices, 0);
  for (std::size_t i = by_start_.size(); i-- > 0;) {
    const OpId op = by_start_[i];
    const DeviceId device = schedule.placement[op];
    if (i >= first && i < last) continue;
    window.held[device.index()] += problem_.resident_bytes(op).count;
    const Span& span = timeline_.ops[op];
    if (span.end == span.start) continue;
    const std::int64_t gap = problem_.cluster().device(device).gap.count;
    if (i >= last) {
      next[device.index()] = gap + (span.end - span.start).count + tail_[op];
    } else {
      window.available[device.index()] = std::max(window.available[device.index()], span.end.count + gap);
    }
  }
  const Nanoseconds begin = timeline_.ops[window.ops.front()].start;
  for (const Transfer& transfer : timeline_.transfers) {
    if (transfer.start >= begin || transfer.end <= begin) continue;
    for (const ChannelId channel : problem_.cluster().route(transfer.from, transfer.to).channels) {
      std::int64_t& free = window.available[devices + channel.index()];
      free = std::max(free, (transfer.end + problem_.cluster().channel(channel).gap).count);
    }
  }
  return next;
}

/// Sets, by device, when the op's inputs from outside the window have arrived.
void WindowSearch::find_arrival(const Schedule& schedule, OpId op, std::size_t first, std::size_t last,
                                std::span<std::int64_t> arrival) const {
  const Graph& graph = problem_.graph();
  for (const TensorId tensor : graph.inputs(op)) {
    const OpId producer = graph.producer(tensor);
    if (within(producer, first, last)) continue;
    const DeviceId from = schedule.placement[producer];
    const std::int64_t end = timeline_.ops[producer].end.count;
    for (std::size_t d = 0; d < arrival.size(); ++d) {
      const std::int64_t there =
          DeviceId{d} == from ? end : end + problem_.transfer_time(tensor, from, DeviceId{d}).count;
      arrival[d] = std::max(arrival[d], there);
    }
    for (std::size_t k = first_transfer_[tensor.index()]; k < first_transfer_[tensor.index() + 1]; ++k) {
      const Transfer& transfer = timeline_.transfers[k];
      std::int64_t& there = arrival[transfer.to.index()];
      there = std::max(there, transfer.end.count);
    }
  }
  for (const OpId earlier : graph.after(op))
    if (!within(earlier, first, last))
      for (std::int64_t& there : arrival) there = std::max(there, timeline_.ops[earlier].end.count);
}

/// Sets, by device, how long the step goes on after the op's end over ops outside the window.
void WindowSearch::find_beyond(const Schedule& schedule, OpId op, std::size_t first, std::size_t last,
                               std::span<std::int64_t> beyond) const {
  const Graph& graph = problem_.graph();
  const auto rest = [&](OpId later) {
    return problem_.duration(later, schedule.placement[later]).count + tail_[later];
  };
  for (const TensorId tensor : graph.outputs(op))
    for (const OpId reader : graph.consumers(tensor)) {
      if (within(reader, first, last)) continue;
      const DeviceId there = schedule.placement[reader];
      for (std::size_t d = 0; d < beyond.size(); ++d)
        beyond[d] = std::max(
            beyond[d],
            rest(reader) + (DeviceId{d} == there ? 0 : problem_.transfer_time(tensor, DeviceId{d}, there).count));
    }
  for (const OpId later : graph.before(op))
    if (!within(later, first, last))
      for (std::int64_t& time : beyond) time = std::max(time, rest(later));
}

Schedule WindowSearch::with_answer(const Schedule& schedule, std::size_t first, const std::vector<OpId>& ops,
                                   const std::vector<std::uint32_t>& device,
                                   const std::vector<std::int64_t>& start) const {
  Schedule result{.placement = schedule.placement, .policy = Policy::strict, .rewrites = schedule.rewrites};
  std::vector<std::size_t> order(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    order[i] = i;
    result.placement[ops[i]] = DeviceId{device[i]};
  }
  sort_by(order, [&](std::size_t i) { return start[i]; });
  result.order.assign(problem_.device_count(), {});
  const auto append = [&](OpId op) { result.order[result.placement[op]].push_back(op); };
  for (std::size_t i = 0; i < first; ++i) append(by_start_[i]);
  for (const std::size_t i : order) append(ops[i]);
  for (std::size_t i = first + ops.size(); i < by_start_.size(); ++i) append(by_start_[i]);
  return result;
}

bool WindowSearch::try_window(Schedule& schedule, Outcome& outcome, std::size_t first, std::size_t count,
                              std::uint64_t end, const Effort& effort) {
  std::int64_t value = 0;
  const detail::ExactWindow window = window_of(schedule, first, count, value);
  std::uint64_t nodes = kMostNodes;  // fewer if the evaluations left are worth fewer
  if (const std::uint64_t left = end - evaluations_; left < kMostNodes)
    nodes = std::min(nodes, left * problem_.op_count() / count);
  const auto found = detail::search_window(
      problem_, window,
      {.limit = value, .most_nodes = nodes, .most_per_placement = kMostPerPlacement, .stop = [&effort] {
         return effort.late();
       }});
  // Counts whole evaluations; the remainder is kept for the next window.
  charged_ += found.nodes * count;
  evaluations_ += charged_ / problem_.op_count();
  charged_ %= problem_.op_count();
  if (!found.best) return false;
  Schedule changed = with_answer(schedule, first, window.ops, found.best->device, found.best->start);
  ++evaluations_;
  const Outcome now = evaluator_.outcome(changed);
  if (now > outcome) return false;
  outcome = now;
  schedule = std::move(changed);
  return true;
}

}  // namespace trainyard
