#include "trainyard/report/explanation.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/problem/collective_run.hpp"

namespace trainyard {
namespace {

/// Tasks that do not overlap, sorted by start, with prefix sums of their times.
struct Track {
  struct Entry {
    Nanoseconds start, end;
    std::uint32_t task;  // op, or index of a transfer
  };
  std::vector<Entry> entries;
  std::vector<Nanoseconds> before;  // total time of all earlier entries

  void add(Nanoseconds start, Nanoseconds end, std::size_t task) {
    if (end > start) entries.push_back({start, end, static_cast<std::uint32_t>(task)});
  }
  void finish() {
    std::ranges::sort(entries, {}, &Entry::start);
    Nanoseconds sum{0};
    for (const Entry& entry : entries) {
      before.push_back(sum);
      sum += entry.end - entry.start;
    }
    before.push_back(sum);
  }
  /// Index of the first entry that ends after `time`.
  std::size_t first_after(Nanoseconds time) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(entries, time, {}, &Entry::end) - entries.begin());
  }
  /// Index of the first entry that starts at `time` or later.
  std::size_t first_from(Nanoseconds time) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(entries, time, {}, &Entry::start) - entries.begin());
  }
  /// Time that the entries take within [from, until).
  Nanoseconds busy(Nanoseconds from, Nanoseconds until) const {
    const std::size_t first = first_after(from), last = first_from(until);
    if (first >= last) return Nanoseconds{0};
    Nanoseconds sum = before[last] - before[first];
    sum -= std::max(Nanoseconds{0}, from - entries[first].start);
    return sum - std::max(Nanoseconds{0}, entries[last - 1].end - until);
  }
};

class Explainer {
 public:
  Explainer(const Problem& problem, const Schedule& schedule, const Timeline& timeline)
      : problem_(problem),
        graph_(problem.graph()),
        cluster_(problem.cluster()),
        placement_(schedule.placement),
        timeline_(timeline),
        runs_(problem),
        on_device_(problem.device_count()),
        on_channel_(problem.cluster().channel_count()),
        first_transfer_(graph_.tensor_count() + 1, 0) {
    for (const OpId op : graph_.ops()) {
      const Span& span = timeline.ops[op];
      on_device_[placement_[op].index()].add(span.start, span.end, op.index());
    }
    std::set<OpId> collectives;  // already added: the first transfer stands for the collective
    for (std::size_t i = 0; i < timeline.transfers.size(); ++i) {
      const Transfer& transfer = timeline.transfers[i];
      ++first_transfer_[transfer.tensor.index() + 1];
      const OpId collective = collective_of(graph_, placement_, transfer);
      if (!collective.is_none() && !collectives.insert(collective).second) continue;
      for (const ChannelId channel : serial_channels(transfer))
        on_channel_[channel.index()].add(transfer.start, transfer.end, i);
    }
    for (std::size_t t = 1; t < first_transfer_.size(); ++t) first_transfer_[t] += first_transfer_[t - 1];
    for (Track& track : on_device_) track.finish();
    for (Track& track : on_channel_) track.finish();
  }

  Explanation run(const Schedule& schedule) const {
    Explanation all;
    Nanoseconds last_end{0};
    std::map<std::pair<DeviceId, DeviceId>, PathShare> shares;
    for (const PathStep& step : critical_path(problem_, schedule, timeline_)) {
      all.path.push_back(task_of(step, last_end));
      const PathTask& task = all.path.back();
      const bool is_op = !step.op.is_none();
      const DeviceId from = is_op ? placement_[step.op] : timeline_.transfers[step.transfer].from;
      const DeviceId to = is_op ? DeviceId::none() : timeline_.transfers[step.transfer].to;
      PathShare& share = shares.try_emplace({from, to}, PathShare{.device = from, .to = to}).first->second;
      ++share.tasks;
      share.time += task.end - task.start;
      share.waited = std::max(share.waited, task.waited());
      (is_op ? all.ops : all.transfers) += task.end - task.start;
      all.gaps += task.gap;
      last_end = task.end;
    }
    for (const auto& [key, share] : shares) all.shares.push_back(share);
    sort_with(all.shares, [](const PathShare& a, const PathShare& b) {
      if (a.time != b.time) return a.time > b.time;
      return a.to.is_none() && !b.to.is_none();
    });
    device_times(all);
    return all;
  }

  std::vector<Occupant> occupants(const PathTask& task, std::size_t most) const {
    std::vector<Occupant> all;
    if (task.waited() <= Nanoseconds{0}) return all;
    const bool is_op = !task.step.op.is_none();
    if (!is_op && task.channel.is_none()) return all;
    const Track& track = is_op ? on_device_[placement_[task.step.op].index()] : on_channel_[task.channel.index()];
    for (std::size_t i = track.first_after(task.ready); i < track.first_from(task.start); ++i) {
      const Track::Entry& entry = track.entries[i];
      const Nanoseconds time = std::min(entry.end, task.start) - std::max(entry.start, task.ready);
      all.push_back({is_op ? OpId{entry.task} : OpId::none(), is_op ? 0 : entry.task, time});
    }
    sort_by_descending(all, &Occupant::time);
    if (all.size() > most) all.resize(most);
    return all;
  }

 private:
  PathTask task_of(const PathStep& step, Nanoseconds last_end) const {
    PathTask task{.step = step};
    if (step.op.is_none()) {
      const Transfer& transfer = timeline_.transfers[step.transfer];
      task.ready = transfer.ready;
      task.start = transfer.start;
      task.end = transfer.end;
      if (task.waited() > Nanoseconds{0})
        for (const ChannelId channel : serial_channels(transfer)) {
          const Track& track = on_channel_[channel.index()];
          const Nanoseconds busy = track.busy(task.ready, task.start);
          if (!task.channel.is_none() && busy <= task.busy_meanwhile) continue;
          task.channel = channel;
          task.busy_meanwhile = busy;
          task.tasks_meanwhile = track.first_from(task.start) - track.first_after(task.ready);
        }
    } else {
      task.ready = ready_time(step.op);
      task.start = timeline_.ops[step.op].start;
      task.end = timeline_.ops[step.op].end;
      if (task.waited() > Nanoseconds{0}) {
        const Track& track = on_device_[placement_[step.op].index()];
        task.busy_meanwhile = track.busy(task.ready, task.start);
        task.tasks_meanwhile = track.first_from(task.start) - track.first_after(task.ready);
      }
    }
    task.gap = task.start - last_end;
    return task;
  }

  /// Serial channels held by the transfer, or by the collective that it belongs to.
  std::vector<ChannelId> serial_channels(const Transfer& transfer) const {
    std::vector<ChannelId> serial;
    const auto add = [&](const auto& channels) {
      for (const ChannelId channel : channels)
        if (!cluster_.channel(channel).fair) serial.push_back(channel);
    };
    if (const OpId collective = collective_of(graph_, placement_, transfer); !collective.is_none())
      add(runs_.of(collective, placement_).channels);
    else
      add(cluster_.route(transfer.from, transfer.to).channels);
    return serial;
  }

  /// Ready time of the op: the end of the last op or transfer that it waits for.
  Nanoseconds ready_time(OpId op) const {
    if (graph_.collective(op)) return timeline_.ops[op].start;  // its transfers have their own ready times
    Nanoseconds ready{0};
    for (const OpId earlier : graph_.after(op)) ready = std::max(ready, timeline_.ops[earlier].end);
    for (const TensorId tensor : graph_.inputs(op)) {
      const OpId producer = graph_.producer(tensor);
      Nanoseconds there = timeline_.ops[producer].end;
      if (placement_[producer] != placement_[op])
        for (std::size_t i = first_transfer_[tensor.index()]; i < first_transfer_[tensor.index() + 1]; ++i) {
          const Transfer& transfer = timeline_.transfers[i];
          if (transfer.to == placement_[op] || std::ranges::binary_search(transfer.also_to, placement_[op]))
            there = transfer.end;
        }
      ready = std::max(ready, there);
    }
    return ready;
  }

  void device_times(Explanation& all) const {
    // Transfers in flight to each device; below merged into disjoint intervals.
    std::vector<std::vector<std::pair<Nanoseconds, Nanoseconds>>> arriving(problem_.device_count());
    for (const Transfer& transfer : timeline_.transfers) {
      if (transfer.end <= transfer.start) continue;
      arriving[transfer.to.index()].emplace_back(transfer.start, transfer.end);
      for (const DeviceId to : transfer.also_to) arriving[to.index()].emplace_back(transfer.start, transfer.end);
    }
    all.devices.assign(problem_.device_count(), DeviceTime{});
    for (const DeviceId device : problem_.devices()) {
      auto& intervals = arriving[device.index()];
      std::ranges::sort(intervals);
      Track incoming;
      for (const auto& [start, end] : intervals) {
        if (incoming.entries.empty() || incoming.entries.back().end < start)
          incoming.add(start, end, 0);
        else
          incoming.entries.back().end = std::max(incoming.entries.back().end, end);
      }
      incoming.finish();
      DeviceTime& time = all.devices[device];
      Nanoseconds free{0};
      for (const Track::Entry& op : on_device_[device.index()].entries) {
        const Nanoseconds awaiting = incoming.busy(free, op.start);
        time.awaiting += awaiting;
        time.idle += op.start - free - awaiting;
        const Nanoseconds until = std::min(op.end + cluster_.device(device).gap, timeline_.makespan);
        time.running += until - op.start;
        free = until;
      }
      time.done = timeline_.makespan - free;
    }
  }

  const Problem& problem_;
  const Graph& graph_;
  const Cluster& cluster_;
  const Placement& placement_;
  const Timeline& timeline_;
  mutable CollectiveRuns runs_;
  std::vector<Track> on_device_, on_channel_;
  std::vector<std::size_t> first_transfer_;  // by tensor: index of its first transfer
};

void check_path(const Schedule& schedule, const Timeline& timeline, const Explanation& explanation) {
  for (const PathTask& task : explanation.path)
    if (task.step.op.is_none())
      check_id("unknown-transfer", "a task of the path", task.step.transfer, timeline.transfers.size(), "transfers");
    else
      check_id("unknown-op", "a task of the path", task.step.op.index(), schedule.placement.size(), "ops");
}

}  // namespace

Explanation explain(const Problem& problem, const Schedule& schedule, const Timeline& timeline) {
  check_sizes(problem, schedule.placement, timeline);
  check_transfers(problem, timeline);
  return Explainer{problem, schedule, timeline}.run(schedule);
}

std::vector<Wait> longest_waits(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                                const Explanation& explanation, std::size_t count, std::size_t most) {
  check_sizes(problem, schedule.placement, timeline);
  check_transfers(problem, timeline);
  check_path(schedule, timeline, explanation);
  std::vector<Wait> waits;
  for (std::size_t i = 0; i < explanation.path.size(); ++i)
    if (explanation.path[i].waited() > Nanoseconds{0}) waits.push_back({i, {}});
  sort_by_descending(waits, [&](const Wait& wait) { return explanation.path[wait.task].waited(); });
  if (waits.size() > count) waits.resize(count);
  const Explainer explainer{problem, schedule, timeline};
  for (Wait& wait : waits) wait.occupants = explainer.occupants(explanation.path[wait.task], most);
  return waits;
}

std::vector<PathRun> path_runs(const Schedule& schedule, const Timeline& timeline, const Explanation& explanation) {
  check_path(schedule, timeline, explanation);
  const auto place_of = [&](const PathTask& task) {
    if (!task.step.op.is_none()) return std::pair{schedule.placement[task.step.op], DeviceId::none()};
    const Transfer& transfer = timeline.transfers[task.step.transfer];
    return std::pair{transfer.from, transfer.to};
  };
  std::vector<PathRun> runs;
  for (std::size_t i = 0; i < explanation.path.size(); ++i) {
    const PathTask& task = explanation.path[i];
    if (runs.empty() || place_of(explanation.path[runs.back().last]) != place_of(task))
      runs.push_back({i, i, task.start, task.end, Nanoseconds{0}});
    runs.back().last = i;
    runs.back().end = task.end;
    runs.back().waited = std::max(runs.back().waited, task.waited());
  }
  return runs;
}

}  // namespace trainyard
