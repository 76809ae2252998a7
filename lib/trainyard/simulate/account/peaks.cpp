#include "trainyard/simulate/account/peaks.hpp"

#include <algorithm>
#include <bit>

#include "trainyard/problem/collective_run.hpp"

namespace trainyard::detail {

void PeakFinder::add(std::int64_t at, bool taken, std::size_t device, std::int64_t bytes) {
  if (bytes > kMostBytes) changes_.resize(changes_.size() + static_cast<std::size_t>(bytes / kMostBytes));
  for (; bytes > 0; bytes -= kMostBytes) changes_[count_++] = change(at, taken, device, std::min(bytes, kMostBytes));
}

void PeakFinder::find_changes(const DenseProblem& problem, const Placement& placement, const Record& record,
                              Nanoseconds makespan) {
  const Graph& graph = problem.problem.graph();
  const auto& slots = graph.consumer_rows().starts();
  const Span* const spans = record.ops.values().data();
  const DeviceId* const devices = placement.values().data();
  // Upper bound: an allocation per transfer, a release per tensor, both for an op of zero duration, and one more,
  // because an entry is written before it is known whether it counts.
  find_parts(problem, placement, record);
  const std::size_t most =
      std::size_t{problem.edges} + problem.tensors + 2 * std::size_t{problem.ops} + 1 + held_from_.size();
  if (changes_.size() < most) changes_.resize(most);
  count_ = 0;
  op_changes_.assign(problem.ops, {0, 0});
  last_use_.assign(problem.devices, {0, TensorId::none(), 0});
  OpChange* const op_changes = op_changes_.data();
  for (std::uint32_t id = 0; id < problem.ops; ++id) {
    const OpId op{id};
    const std::size_t home = devices[id].index();
    const auto [start, end] = spans[id];
    const std::int64_t from = held_from_.empty() ? start.count : std::min(start.count, held_from_[op].count);
    lines_[home].held += problem.problem.resident_bytes(op).count;
    std::int64_t taken = 0;
    if (end > start) {
      taken = graph.workspace_bytes(op).count;
      op_changes[id].freed += taken;
    }
    const auto take = [&, at = start.count](std::int64_t bytes) {
      if (from < at)
        add(from, true, home, bytes);
      else
        taken += bytes;
    };
    for (const TensorId tensor : graph.outputs(op)) {
      const std::int64_t bytes = graph.bytes(tensor).count;
      if (bytes == 0) continue;
      const std::uint32_t transfers = record.transfer_count[tensor];
      std::int64_t last = end.count, sent = 0;
      std::uint32_t last_op = id;
      // Selections instead of branches: a processor cannot predict on which device the next consumer runs, or which of
      // two ends is later.
      if (transfers == 0) {
        for (const OpId consumer : graph.consumers(tensor)) {
          const std::int64_t used = spans[consumer.index()].end.count;
          const bool later = used > last;
          last = later ? used : last;
          last_op = later ? static_cast<std::uint32_t>(consumer.index()) : last_op;
        }
      } else if (transfers == 1 && !problem.broadcasts && bytes <= kMostBytes) {
        const Record::Transfer& transfer = record.transfers[Slot{slots[tensor.index()]}];
        std::int64_t last_there = -1;
        std::uint32_t last_op_there = id;
        for (const OpId consumer : graph.consumers(tensor)) {
          const auto by = static_cast<std::uint32_t>(consumer.index());
          const std::int64_t used = spans[by].end.count;
          const bool here = devices[by].index() == home;
          const bool later = here & (used > last), later_there = !here & (used > last_there);
          last = later ? used : last;
          last_op = later ? by : last_op;
          last_there = later_there ? used : last_there;
          last_op_there = later_there ? by : last_op_there;
        }
        sent = transfer.end.count;
        const bool arrives = last_there != transfer.start.count;
        changes_[count_] = change(transfer.start.count, true, transfer.to.index(), bytes);
        count_ += arrives;
        op_changes[last_op_there].freed += arrives ? bytes : 0;
      } else {
        find_arrivals(problem, placement, record, tensor);
        last = last_use_[home].end;
        last_op = last_use_[home].op;
        for (std::uint32_t i = 0; i < transfers; ++i)
          sent = std::max(sent, record.transfers[Slot{slots[tensor.index()] + i}].end.count);
      }
      if (graph.kept(tensor)) {
        if (makespan.count > from) take(bytes);
        continue;
      }
      // The last transfer ends after the op's start: if it takes no time, either the op does, or last >= sent.
      const bool is_sent = sent > last, is_used = last > from;
      take((is_sent | is_used) ? bytes : 0);
      op_changes[last_op].freed += (!is_sent & is_used) ? bytes : 0;
      if (bytes <= kMostBytes) {
        changes_[count_] = change(sent, false, home, bytes);
        count_ += is_sent;
      } else if (is_sent) {
        add(sent, false, home, bytes);
      }
    }
    op_changes[id].taken = taken;
  }
  if (!problem.zero_durations) return;
  for (std::uint32_t id = 0; id < problem.ops; ++id) {
    const auto [start, end] = spans[id];
    if (start != end) continue;
    add(start.count, true, devices[id].index(), op_changes[id].taken);
    add(end.count, false, devices[id].index(), op_changes[id].freed);
  }
}

/// Finds the tensors that are held from before their op's start.
void PeakFinder::find_parts(const DenseProblem& problem, const Placement& placement, const Record& record) {
  held_from_.clear();
  if (record.collectives.empty()) return;
  const Graph& graph = problem.problem.graph();
  held_from_.assign(problem.ops, kLongestTime);
  for (const Record::Collective& run : record.collectives)
    for (const CollectivePart& part : collective_parts(graph, run.op, placement))
      held_from_[graph.producer(part.tensor)] = run.start;
}

/// Handles a tensor that is sent to several devices or by broadcast: adds the allocations and releases on the devices
/// where it arrives, and writes its last use on the producer's device to last_use_.
void PeakFinder::find_arrivals(const DenseProblem& problem, const Placement& placement, const Record& record,
                               TensorId tensor) {
  const Graph& graph = problem.problem.graph();
  const auto& spans = record.ops;
  const OpId op = graph.producer(tensor);
  const DeviceId from = placement[op];
  const std::size_t home = from.index();
  const std::int64_t bytes = graph.bytes(tensor).count;
  LastUse* const last_use = last_use_.data();
  last_use[home] = {spans[op].end.count, tensor, static_cast<std::uint32_t>(op.index())};
  for (const OpId consumer : graph.consumers(tensor)) {
    const auto by = static_cast<std::uint32_t>(consumer.index());
    LastUse& use = last_use[placement[consumer].index()];
    const std::int64_t used = spans[consumer].end.count;
    const bool later = (use.tensor != tensor) | (used > use.end);
    use.end = later ? used : use.end;
    use.op = later ? by : use.op;
    use.tensor = tensor;
  }
  const std::uint32_t first = graph.consumer_rows().starts()[tensor.index()];
  for (std::uint32_t i = 0; i < record.transfer_count[tensor]; ++i) {
    const Record::Transfer& transfer = record.transfers[Slot{first + i}];
    const auto arrive = [&](DeviceId device) {
      LastUse& use = last_use[device.index()];
      use.tensor = TensorId::none();  // with a broadcast, several consumers of one device are visited
      if (use.end == transfer.start.count) return;
      add(transfer.start.count, true, device.index(), bytes);
      op_changes_[use.op].freed += bytes;
    };
    arrive(transfer.to);
    if (!problem.broadcasts || !problem.broadcast(from, transfer.to)) continue;
    for (const OpId consumer : graph.consumers(tensor)) {
      const DeviceId device = placement[consumer];
      if (device != from && last_use[device.index()].tensor == tensor && problem.broadcast(from, device))
        arrive(device);
    }
  }
}

/// Lists the ops of each device that take time, by start.
void PeakFinder::line_up(const DenseProblem& problem, const Placement& placement, const Record& record) {
  const Span* const spans = record.ops.values().data();
  const DeviceId* const devices = placement.values().data();
  std::span<const OpId> started = record.started;
  if (!record.in_order) {
    // The engine left no list. changes_ is not in use yet.
    if (changes_.size() < problem.ops) changes_.resize(problem.ops);
    count_ = 0;
    for (std::uint32_t id = 0; id < problem.ops; ++id)
      if (spans[id].start != spans[id].end)
        changes_[count_++] = {static_cast<std::uint64_t>(spans[id].start.count), id};
    sort(1);
    started_.clear();
    for (const Change& change : found()) started_.emplace_back(change.where);
    started = started_;
  }
  ops_end_.assign(problem.devices + 1, 0);
  for (const OpId op : started) ++ops_end_[devices[op.index()].index() + 1];
  for (std::uint32_t device = 0; device < problem.devices; ++device) ops_end_[device + 1] += ops_end_[device];
  in_line_.resize(problem.ops);
  for (const OpId op : started) in_line_[ops_end_[devices[op.index()].index()]++] = op;
}

/// Adds up the changes of a device over time: those of its ops, one after another, and the other changes, both sorted
/// by time.
PeakFinder::Line PeakFinder::walked(Line line, std::span<const OpId> ops, std::span<const Change> changes,
                                    const Span* spans) {
  std::int64_t held = line.held, peak = line.held;
  std::uint64_t peak_when = 0;
  const auto take = [&](std::uint64_t when, std::int64_t delta) {
    held += delta;
    const bool higher = held > peak;
    peak = higher ? held : peak;
    peak_when = higher ? when : peak_when;
  };
  const Change* change = changes.data();
  const Change* const last = change + changes.size();
  const auto pass = [&](std::uint64_t when) {
    for (; change != last && change->when < when; ++change) take(change->when, delta_of(*change));
  };
  for (const OpId op : ops) {
    const Span span = spans[op.index()];
    const std::uint64_t start = static_cast<std::uint64_t>(span.start.count) << 1 | 1;
    const std::uint64_t end = static_cast<std::uint64_t>(span.end.count) << 1;
    pass(start);
    take(start, op_changes_[op.index()].taken);
    pass(end);
    held -= op_changes_[op.index()].freed;
  }
  pass(kNever);
  return {held, peak, peak_when};
}

void PeakFinder::find(const DenseProblem& problem, const Placement& placement, const Record& record,
                      Nanoseconds makespan, MemoryPeaks& peaks) {
  lines_.assign(problem.devices, {});
  line_up(problem, placement, record);
  find_changes(problem, placement, record, makespan);
  sort(problem.devices);
  std::size_t next = 0;
  std::uint32_t next_op = 0;
  for (std::size_t device = 0; device < problem.devices; ++device) {
    const std::span<const OpId> ops{in_line_.data() + next_op, in_line_.data() + ops_end_[device]};
    lines_[device] =
        walked(lines_[device], ops, found().subspan(next, ends_[device] - next), record.ops.values().data());
    next = ends_[device];
    next_op = ops_end_[device];
  }
  peaks.makespan = makespan;
  peaks.peak.assign(problem.devices, Bytes{0});
  peaks.peak_at.assign(problem.devices, Nanoseconds{0});
  peaks.fits = true;
  for (const DeviceId device : problem.problem.devices()) {
    const Line& line = lines_[device.index()];
    peaks.peak[device] = Bytes{line.peak};
    peaks.peak_at[device] = Nanoseconds{static_cast<std::int64_t>(line.peak_when >> 1)};
    const auto capacity = problem.problem.cluster().device(device).memory;
    peaks.fits = peaks.fits && (!capacity || peaks.peak[device] <= *capacity);
  }
}

/// Sorts by device, then by time. Distributes the changes to buckets of equal width per device, about one per change.
/// Sorts each bucket by insertion, or by std::sort if uneven times put many into it. Writes the end of each device's
/// changes to ends_.
void PeakFinder::sort(std::size_t devices) {
  constexpr std::uint32_t kMany = 24;
  const auto device_of = [devices](const Change& change) {
    return devices == 1 ? 0 : static_cast<std::size_t>(change.where >> kByteBits);
  };
  std::uint64_t all = 0;
  for (const Change& change : found()) all |= change.when;
  const auto bits = static_cast<unsigned>(std::bit_width(all));
  const unsigned wanted = std::max(1U, static_cast<unsigned>(std::bit_width(count_ / devices)));
  const unsigned shift = bits > wanted ? bits - wanted : 0;
  const std::size_t width = static_cast<std::size_t>(all >> shift) + 1;
  // first_[b] is first the start of bucket b, and later its end.
  first_.assign(devices * width + 1, 0);
  for (const Change& change : found()) ++first_[device_of(change) * width + (change.when >> shift) + 1];
  std::uint32_t sum = 0, most = 0;
  for (std::uint32_t& count : first_) {
    most = std::max(most, count);
    count = sum += count;
  }
  if (sorted_.size() < changes_.size()) sorted_.resize(changes_.size());
  for (const Change& change : found()) sorted_[first_[device_of(change) * width + (change.when >> shift)]++] = change;
  changes_.swap(sorted_);
  if (most > kMany) {
    std::uint32_t from = 0;
    for (const std::uint32_t until : first_) {
      if (until - from > kMany)
        std::sort(changes_.begin() + from, changes_.begin() + until,
                  [](const Change& a, const Change& b) { return a.when < b.when; });
      from = until;
    }
  }
  ends_.resize(devices);
  std::size_t from = 0;
  for (std::size_t device = 0; device < devices; ++device) {
    const std::size_t until = ends_[device] = first_[(device + 1) * width - 1];
    for (std::size_t i = from + 1; i < until; ++i) {
      const Change change = changes_[i];
      std::size_t at = i;
      for (; at > from && change.when < changes_[at - 1].when; --at) changes_[at] = changes_[at - 1];
      changes_[at] = change;
    }
    from = until;
  }
}

}  // namespace trainyard::detail
