#include "trainyard/simulate/peaks.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

namespace trainyard::detail {

void PeakFinder::add(std::int64_t at, bool taken, std::size_t device, std::int64_t bytes) {
  constexpr std::int64_t kMost = (std::int64_t{1} << kByteBits) - 1;
  for (; bytes > 0; bytes -= kMost)
    changes_.push_back(
        {static_cast<std::uint64_t>(at) << 1 | (taken ? 1U : 0U),
         static_cast<std::uint64_t>(device) << kByteBits | static_cast<std::uint64_t>(std::min(bytes, kMost))});
}

void PeakFinder::find_changes(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record,
                              Nanoseconds makespan) {
  const Graph& graph = problem.problem.graph();
  const auto& slots = graph.consumer_rows().starts();
  const Span* const spans = record.ops.values().data();
  const DeviceId* const devices = placement.values().data();
  changes_.clear();
  op_changes_.assign(problem.ops, {0, 0});
  last_use_.assign(problem.devices, {0, ~std::uint32_t{0}, 0});
  LastUse* const last_use = last_use_.data();
  OpChange* const op_changes = op_changes_.data();
  for (std::uint32_t id = 0; id < problem.ops; ++id) {
    const OpId op{id};
    const std::size_t home = devices[id].index();
    const auto [start, end] = spans[id];
    lines_[home].held += problem.problem.resident_bytes(op).count;
    std::int64_t taken = 0;
    if (end > start) {
      taken = graph.workspace_bytes(op).count;
      op_changes[id].freed += taken;
    }
    for (const TensorId tensor : graph.outputs(op)) {
      const std::int64_t bytes = graph.bytes(tensor).count;
      if (bytes == 0) continue;
      const auto number = static_cast<std::uint32_t>(tensor.index());
      const std::uint32_t transfers = record.transfers_of[number];
      std::int64_t last = end.count, sent = 0;
      std::uint32_t last_op = id;
      // Selections rather than branches: where the next consumer runs is what a processor cannot guess.
      if (transfers == 0) {
        for (const OpId consumer : graph.consumers(tensor)) {
          const std::int64_t used = spans[consumer.index()].end.count;
          const bool later = used > last;
          last = later ? used : last;
          last_op = later ? static_cast<std::uint32_t>(consumer.index()) : last_op;
        }
      } else if (transfers == 1 && !problem.broadcasts) {
        const Workspace::Record::Transfer& transfer = record.transfers[slots[number]];
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
        sent = transfer.end;
        if (last_there != transfer.start) {
          add(transfer.start, true, transfer.to, bytes);
          op_changes[last_op_there].freed += bytes;
        }
      } else {
        last_use[home] = {end.count, number, id};
        for (const OpId consumer : graph.consumers(tensor)) {
          const auto by = static_cast<std::uint32_t>(consumer.index());
          LastUse& use = last_use[devices[by].index()];
          const std::int64_t used = spans[by].end.count;
          const bool later = (use.tensor != number) | (used > use.end);
          use.end = later ? used : use.end;
          use.op = later ? by : use.op;
          use.tensor = number;
        }
        last = last_use[home].end;
        last_op = last_use[home].op;
        for (std::uint32_t i = 0; i < transfers; ++i) {
          const Workspace::Record::Transfer& transfer = record.transfers[slots[number] + i];
          sent = std::max(sent, transfer.end);
          const auto arrive = [&](std::size_t device) {
            LastUse& use = last_use[device];
            use.tensor = ~std::uint32_t{0};  // a broadcast to several is met once per device
            if (use.end == transfer.start) return;
            add(transfer.start, true, device, bytes);
            op_changes[use.op].freed += bytes;
          };
          arrive(transfer.to);
          const auto from = static_cast<std::uint32_t>(home);
          if (!problem.broadcasts || !problem.broadcast(from, transfer.to)) continue;
          for (const OpId consumer : graph.consumers(tensor)) {
            const std::size_t device = devices[consumer.index()].index();
            if (device != home && last_use[device].tensor == number &&
                problem.broadcast(from, static_cast<std::uint32_t>(device)))
              arrive(device);
          }
        }
      }
      if (graph.kept(tensor)) {
        if (makespan > start) taken += bytes;
      } else if (sent > last) {
        taken += bytes;  // sent > start: where the transfer takes no time, the op does, or last >= sent
        add(sent, false, home, bytes);
      } else if (last > start.count) {
        taken += bytes;
        op_changes[last_op].freed += bytes;
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

/// The ops of each device that take time, by their starts.
void PeakFinder::line_up(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record) {
  const Span* const spans = record.ops.values().data();
  const DeviceId* const devices = placement.values().data();
  std::span<const std::uint32_t> started = record.started;
  if (!record.in_order) {
    // Where an engine has left none, changes_ is not needed yet.
    changes_.clear();
    for (std::uint32_t id = 0; id < problem.ops; ++id)
      if (spans[id].start != spans[id].end) changes_.push_back({static_cast<std::uint64_t>(spans[id].start.count), id});
    sort(1);
    started_.clear();
    for (const Change& change : changes_) started_.push_back(static_cast<std::uint32_t>(change.where));
    started = started_;
  }
  first_.assign(problem.devices + 1, 0);
  for (const std::uint32_t id : started) ++first_[devices[id].index() + 1];
  for (std::uint32_t device = 0; device < problem.devices; ++device) first_[device + 1] += first_[device];
  in_line_.resize(problem.ops);
  for (const std::uint32_t id : started) in_line_[first_[devices[id].index()]++] = id;
  const std::uint32_t* begin = in_line_.data();
  for (std::uint32_t device = 0; device < problem.devices; ++device) {
    const std::uint32_t* const end = in_line_.data() + first_[device];
    const std::uint64_t next = begin == end ? kNever : static_cast<std::uint64_t>(spans[*begin].start.count) << 1 | 1;
    lines_[device] = {next, 0, 0, 0, begin, end, false};
    begin = end;
  }
}

/// The device's own ops, up to `when`.
inline void PeakFinder::advance(Line& line, std::uint64_t when, const Span* spans) const {
  while (line.next <= when) {
    const std::uint32_t id = *line.op;
    line.runs = !line.runs;
    if (line.runs) {
      line.take(op_changes_[id].taken, line.next);
      line.next = static_cast<std::uint64_t>(spans[id].end.count) << 1;
    } else {
      line.held -= op_changes_[id].freed;
      ++line.op;
      line.next = line.op == line.end ? kNever : static_cast<std::uint64_t>(spans[*line.op].start.count) << 1 | 1;
    }
  }
}

void PeakFinder::find(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record,
                      Nanoseconds makespan, MemoryPeaks& peaks) {
  lines_.resize(problem.devices);
  line_up(problem, placement, record);
  find_changes(problem, placement, record, makespan);
  sort(problem.devices);
  const Span* const spans = record.ops.values().data();
  std::size_t next = 0;
  for (std::size_t device = 0; device < problem.devices; ++device) {
    Line line = lines_[device];
    line.peak = line.held;
    for (; next < ends_[device]; ++next) {
      const Change& change = changes_[next];
      const auto bytes = static_cast<std::int64_t>(change.where & ((std::uint64_t{1} << kByteBits) - 1));
      advance(line, change.when, spans);
      if ((change.when & 1) != 0)
        line.take(bytes, change.when);
      else
        line.held -= bytes;
    }
    advance(line, kNever - 1, spans);
    lines_[device] = line;
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

/// By device, then by time. Of each device into buckets of equal width, about one per change, then what is left within
/// each bucket. Where times are spread so unevenly that a bucket holds many, that one is sorted by comparisons. Leaves
/// in ends_ where each device's changes end.
void PeakFinder::sort(std::size_t devices) {
  constexpr std::uint32_t kMany = 24;
  const auto device_of = [devices](const Change& change) {
    return devices == 1 ? 0 : static_cast<std::size_t>(change.where >> kByteBits);
  };
  std::uint64_t all = 0;
  for (const Change& change : changes_) all |= change.when;
  const auto bits = static_cast<unsigned>(std::bit_width(all));
  const unsigned wanted = std::max(1U, static_cast<unsigned>(std::bit_width(changes_.size() / devices)));
  const unsigned shift = bits > wanted ? bits - wanted : 0;
  const std::size_t width = static_cast<std::size_t>(all >> shift) + 1;
  // first_[b] is where bucket b starts, and becomes where it ends.
  first_.assign(devices * width + 1, 0);
  for (const Change& change : changes_) ++first_[device_of(change) * width + (change.when >> shift) + 1];
  std::uint32_t sum = 0, most = 0;
  for (std::uint32_t& count : first_) {
    most = std::max(most, count);
    count = sum += count;
  }
  sorted_.resize(changes_.size());
  for (const Change& change : changes_) sorted_[first_[device_of(change) * width + (change.when >> shift)]++] = change;
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
