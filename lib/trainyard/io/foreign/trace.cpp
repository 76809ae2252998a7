#include "trainyard/io/foreign/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/json/json_write.hpp"
#include "trainyard/simulate/account/lanes.hpp"
#include "trainyard/simulate/account/memory_curve.hpp"
#include "trainyard/simulate/critical_path.hpp"

namespace trainyard {
namespace {

using namespace detail;

/// Thread and time of the slice of an op or a transfer.
struct Slice {
  std::size_t pid = 0, tid = 0;
  Span span;
};

class TraceWriter {
 public:
  TraceWriter(const Problem& problem, const Schedule& schedule, const Timeline& timeline, std::ostream& out)
      : problem_(problem),
        schedule_(schedule),
        timeline_(timeline),
        out_(out),
        lanes_(lanes(problem, schedule.placement, timeline)),
        transfer_slices_(timeline.transfers.size()) {}

  void write(const TraceOptions& options) {
    text_ += R"({"displayTimeUnit": "ns", "otherData": {"tool": "trainyard", "graph": )" +
             json_string(problem_.graph().name()) + R"(, "cluster": )" + json_string(problem_.cluster().name()) +
             R"(, "placer": )" + json_string(schedule_.placer) +
             fmt::format(R"(, "makespan_ns": "{}"}},)", timeline_.makespan.count) + "\n\"traceEvents\": [";
    write_rows();
    write_slices();
    if (options.flows == TraceOptions::Flows::critical) write_critical_path();
    if (options.flows == TraceOptions::Flows::all) write_dependencies();
    write_memory();
    write_link_use();
    text_ += "\n]}\n";
    flush();
  }

 private:
  std::size_t links_pid() const { return problem_.device_count(); }
  std::size_t pid_of(const Lane& lane) const {
    return lane.kind == Lane::Kind::device ? lane.device.index() : links_pid();
  }
  /// Thread of a lane. The lanes of links are numbered from 0 in their process; a device has thread 0 only.
  std::size_t tid_of(std::size_t lane) const {
    return lane < problem_.device_count() ? 0 : lane - problem_.device_count();
  }

  template <class... Arguments>
  void event(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += first_ ? "\n{" : ",\n{";
    first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    text_ += '}';
    if (text_.size() > kBlock) flush();
  }

  void flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }

  void write_process(std::size_t pid, const std::string& name, const std::string& label) {
    event(R"("ph": "M", "name": "process_name", "pid": {}, "args": {{"name": {}}})", pid, json_string(name));
    event(R"("ph": "M", "name": "process_sort_index", "pid": {0}, "args": {{"sort_index": {0}}})", pid);
    if (!label.empty())
      event(R"("ph": "M", "name": "process_labels", "pid": {}, "args": {{"labels": {}}})", pid, json_string(label));
  }

  void write_rows() {
    for (const DeviceId device : problem_.devices()) {
      const Device& spec = problem_.cluster().device(device);
      write_process(device.index(), spec.name, spec.kind.empty() ? spec.device_class : spec.kind);
    }
    if (lanes_.size() > problem_.device_count()) write_process(links_pid(), "links", "");
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const std::size_t pid = pid_of(lanes_[i]), tid = tid_of(i);
      event(R"("ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "args": {{"name": {}}})", pid, tid,
            json_string(lanes_[i].kind == Lane::Kind::device ? "ops" : lanes_[i].name));
      event(R"("ph": "M", "name": "thread_sort_index", "pid": {0}, "tid": {1}, "args": {{"sort_index": {1}}})", pid,
            tid);
    }
  }

  void write_slices() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const Lane& lane = lanes_[i];
      const Slice row{pid_of(lane), tid_of(i), {}};
      for (const auto* indices : {&lane.spans, &lane.instants})
        for (const std::size_t index : *indices) {
          if (lane.kind == Lane::Kind::device)
            write_op(row, OpId{index});
          else
            write_transfer(row, index);
        }
    }
  }

  void write_op(Slice row, OpId op) {
    const Graph& graph = problem_.graph();
    const DeviceId device = schedule_.placement[op];
    write_slice(row, timeline_.ops[op], graph.name(op), name_of(graph.phase(op)),
                fmt::format(R"("op": {}, "type": {}, "layer": {}, "flops": {}, "cost": "{}")", op.index(),
                            json_string(graph.type(op)), json_string(graph.layer(op)), graph.flops(op).value,
                            problem_.cost_source(op, device).name));
  }

  void write_transfer(Slice row, std::size_t index) {
    const Transfer& transfer = timeline_.transfers[index];
    const Cluster& cluster = problem_.cluster();
    const Span span{transfer.start, transfer.end};
    if (span.start < span.end && !transfer_slices_[index]) transfer_slices_[index] = Slice{row.pid, row.tid, span};
    std::string to = cluster.device(transfer.to).name;
    for (const DeviceId device : transfer.also_to) to += ", " + cluster.device(device).name;
    write_slice(row, span, problem_.graph().name(transfer.tensor), "transfer",
                fmt::format(R"("from": {}, "to": {}, "bytes": {}, "waited_ns": {})",
                            json_string(cluster.device(transfer.from).name), json_string(to), transfer.bytes.count,
                            (transfer.start - transfer.ready).count));
  }

  void write_slice(Slice row, Span span, std::string_view name, const char* category, const std::string& arguments) {
    if (span.start == span.end)
      event(R"("ph": "i", "s": "t", "name": {}, "cat": "{}", "pid": {}, "tid": {}, "ts": {}, "args": {{{}}})",
            json_string(name), category, row.pid, row.tid, microseconds(span.start), arguments);
    else
      event(R"("ph": "X", "name": {}, "cat": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}})",
            json_string(name), category, row.pid, row.tid, microseconds(span.start),
            microseconds(span.end - span.start), arguments);
  }

  std::optional<Slice> slice_of(OpId op) const {
    const Span span = timeline_.ops[op];
    if (span.start == span.end) return std::nullopt;
    return Slice{schedule_.placement[op].index(), 0, span};
  }

  /// Writes an arrow through one point in each slice: the last nanosecond of the first slice, the start of each other.
  void write_arrow(const std::vector<Slice>& through, const char* category) {
    if (through.size() < 2) return;
    for (std::size_t i = 0; i < through.size(); ++i) {
      const bool last = i + 1 == through.size();
      const Nanoseconds at = i == 0 ? through[i].span.end - Nanoseconds{1} : through[i].span.start;
      event(R"("ph": "{}", "name": "{}", "cat": "{}", "id": {}, "pid": {}, "tid": {}, "ts": {}{})",
            i == 0 ? 's' : (last ? 'f' : 't'), category, category, next_arrow_, through[i].pid, through[i].tid,
            microseconds(at), last ? R"(, "bp": "e")" : "");
    }
    ++next_arrow_;
  }

  void write_critical_path() {
    std::vector<Slice> through;
    for (const PathStep& step : critical_path(problem_, schedule_, timeline_)) {
      const auto slice = step.op.is_none() ? transfer_slices_[step.transfer] : slice_of(step.op);
      if (slice) through.push_back(*slice);
    }
    write_arrow(through, "critical path");
  }

  void write_dependencies() {
    const Graph& graph = problem_.graph();
    const Placement& placement = schedule_.placement;
    for (std::size_t i = 0; i < timeline_.transfers.size(); ++i) {
      const Transfer& transfer = timeline_.transfers[i];
      std::vector<Slice> before;
      for (const auto& slice : {slice_of(graph.producer(transfer.tensor)), transfer_slices_[i]})
        if (slice) before.push_back(*slice);
      for (const OpId consumer : graph.consumers(transfer.tensor)) {
        const DeviceId at = placement[consumer];
        const auto slice = slice_of(consumer);
        if (!slice || (at != transfer.to && !std::count(transfer.also_to.begin(), transfer.also_to.end(), at)))
          continue;
        std::vector<Slice> through = before;
        through.push_back(*slice);
        write_arrow(through, "dependency");
      }
    }
    for (const OpId op : problem_.ops()) {
      const auto slice = slice_of(op);
      if (!slice) continue;
      for (const TensorId tensor : graph.inputs(op))
        if (placement[graph.producer(tensor)] == placement[op]) write_direct(graph.producer(tensor), *slice);
      for (const OpId earlier : graph.after(op)) write_direct(earlier, *slice);
    }
  }

  void write_direct(OpId producer, Slice consumer) {
    if (const auto slice = slice_of(producer)) write_arrow({*slice, consumer}, "dependency");
  }

  void write_memory() {
    const auto curves = memory_curves(problem_, schedule_.placement, timeline_);
    for (const DeviceId device : problem_.devices()) {
      for (const MemoryPoint& point : curves[device])
        write_counter(device.index(), "memory", point.at, point.held.count);
      if (timeline_.makespan > curves[device].back().at)
        write_counter(device.index(), "memory", timeline_.makespan, curves[device].back().held.count);
    }
  }

  void write_counter(std::size_t pid, const std::string& name, Nanoseconds at, std::int64_t bytes) {
    event(R"("ph": "C", "name": {}, "pid": {}, "tid": 0, "ts": {}, "args": {{"bytes": {}}})", json_string(name), pid,
          microseconds(at), bytes);
  }

  /// Writes the rate of each channel, and of each lane without a channel: the sum over simultaneous transfers.
  void write_link_use() {
    for (std::size_t first = 0, last = 0; first < lanes_.size(); first = last) {
      const Lane& lane = lanes_[first];
      const auto same = [&](const Lane& other) { return !lane.channel.is_none() && other.channel == lane.channel; };
      for (last = first + 1; last < lanes_.size() && same(lanes_[last]);) ++last;
      if (lane.kind == Lane::Kind::device) continue;
      std::vector<std::pair<Nanoseconds, std::int64_t>> changes;
      for (std::size_t i = first; i < last; ++i)
        for (const std::size_t index : lanes_[i].spans) {
          const Transfer& transfer = timeline_.transfers[index];
          const auto rate = static_cast<std::int64_t>(static_cast<double>(transfer.bytes.count) /
                                                      seconds(transfer.end - transfer.start));
          changes.emplace_back(transfer.start, rate);
          changes.emplace_back(transfer.end, -rate);
        }
      std::ranges::sort(changes);
      std::int64_t rate = 0;
      for (std::size_t i = 0; i < changes.size(); ++i) {
        rate += changes[i].second;
        if (i + 1 == changes.size() || changes[i + 1].first > changes[i].first)
          write_counter(links_pid(), "bytes/s: " + lane.name, changes[i].first, rate);
      }
    }
  }

  static constexpr std::size_t kBlock = 1 << 16;  // bytes collected before they are written

  const Problem& problem_;
  const Schedule& schedule_;
  const Timeline& timeline_;
  std::ostream& out_;
  std::vector<Lane> lanes_;
  std::vector<std::optional<Slice>> transfer_slices_;  // on the transfer's first lane; empty for zero duration
  std::string text_;
  bool first_ = true;
  std::size_t next_arrow_ = 1;
};

}  // namespace

void write_trace(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                 const TraceOptions& options, std::ostream& out) {
  check_sizes(problem, schedule.placement, timeline);
  check_transfers(problem, timeline);
  TraceWriter(problem, schedule, timeline, out).write(options);
}

}  // namespace trainyard
