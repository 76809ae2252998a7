#include "trainyard/io/chakra/chakra_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/simulate/critical_path.hpp"

namespace trainyard {
namespace {

std::uint64_t whole_microseconds(Nanoseconds time) { return static_cast<std::uint64_t>((time.count + 500) / 1000); }

/// A node without its id: when it is issued, and on which nodes of its device it depends.
struct Issue {
  Nanoseconds at;
  int kind = 0;  // order of nodes issued at one time: 0 receives, 1 ops and collectives, 2 sends
  OpId op;       // the op that runs; for a send, the producer
  ChakraNode node;
  std::vector<OpId> readers;  // of a receive; the members of a collective
};

/// Chakra's kind; nothing for a shift, which becomes sends and receives.
std::optional<ChakraNode::Collective> chakra_kind(CollectiveKind kind) {
  using Chakra = ChakraNode::Collective;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return Chakra::all_reduce;
    case CollectiveKind::all_gather:
      return Chakra::all_gather;
    case CollectiveKind::reduce_scatter:
      return Chakra::reduce_scatter;
    case CollectiveKind::all_to_all:
      return Chakra::all_to_all;
    case CollectiveKind::broadcast:
      return Chakra::broadcast;
    case CollectiveKind::shift:
      break;
  }
  return std::nullopt;
}

class ChakraSchedule {
 public:
  ChakraSchedule(const Problem& problem, const Placement& placement, const Timeline& timeline)
      : graph_(problem.graph()), placement_(placement), timeline_(timeline), issues_(problem.device_count()) {}

  std::vector<ChakraTrace> write() {
    std::map<OpId, Span> collectives;  // the times in which they ran
    for (const Transfer& transfer : timeline_.transfers) {
      const OpId collective = collective_of(graph_, placement_, transfer);
      if (!collective.is_none()) {
        collectives[collective] = {transfer.start, transfer.end};
        if (!chakra_kind(graph_.collective(collective)->kind)) add_part(transfer, collective);
        continue;
      }
      add_message(transfer, transfer.to);
      for (const DeviceId to : transfer.also_to) add_message(transfer, to);
    }
    for (const OpId op : graph_.ops()) {
      if (const CollectiveTask* const task = graph_.collective(op))
        add_collective(op, *task, collectives[op]);
      else
        add_op(op);
      for (const OpId before : graph_.after(op))
        if (!graph_.collective(op) && !graph_.collective(before) && placement_[before] != placement_[op])
          add_pair(before, placement_[op], {op}, timeline_.ops[before].end, Bytes{1},
                   fmt::format("{} -> {}", graph_.name(before), graph_.name(op)));
    }
    std::vector<ChakraTrace> traces;
    for (std::vector<Issue>& issues : issues_) traces.push_back(trace_of(issues));
    return traces;
  }

 private:
  void add_op(OpId op) {
    const Span& span = timeline_.ops[op];
    Issue issue{.at = span.start, .kind = 1, .op = op, .node = {}, .readers = {}};
    issue.node.name = std::string{graph_.name(op)};
    issue.node.type = ChakraNode::Type::compute;
    issue.node.duration = whole_microseconds(span.end) - whole_microseconds(span.start);
    issue.node.flops = static_cast<std::int64_t>(std::min(graph_.flops(op).value, 0x1p62));
    issue.node.accessed_bytes = graph_.bytes_accessed(op).count;
    issues_[placement_[op].index()].push_back(std::move(issue));
  }
  /// Adds a node on each device. It starts after the ops that give the device's part and ends before those that use its
  /// result.
  void add_collective(OpId op, const CollectiveTask& task, Span span) {
    const auto kind = chakra_kind(task.kind);
    if (!kind) return;
    const std::vector<DeviceId> devices = collective_devices(graph_, op, placement_);
    const auto ranks = static_cast<std::int64_t>(devices.size());
    ChakraNode node;
    node.name = std::string{graph_.name(op)};
    node.type = ChakraNode::Type::collective;
    node.collective = static_cast<std::int64_t>(*kind);
    node.bytes = std::max<std::int64_t>(
        1, task.kind == CollectiveKind::all_gather ? task.bytes.count / ranks : task.bytes.count);
    node.duration = whole_microseconds(span.end) - whole_microseconds(span.start);
    if (devices.size() < issues_.size()) {
      std::vector<DeviceId> group = devices;
      std::ranges::sort(group);
      node.group = std::to_string(groups_.try_emplace(std::move(group), groups_.size() + 1).first->second);
    }
    for (const DeviceId device : devices) {
      Issue issue{.at = timeline_.ops[op].end, .kind = 1, .op = op, .node = node, .readers = {}};
      for (const OpId member : graph_.before(op))
        if (placement_[member] == device) issue.readers.push_back(member);
      issues_[device.index()].push_back(std::move(issue));
    }
  }
  /// Adds the message that a member of a shift receives from the op before the shift on the sending device.
  void add_part(const Transfer& part, OpId collective) {
    for (const OpId giver : graph_.after(collective))
      if (placement_[giver] == part.from)
        return add_pair(giver, part.to, {graph_.producer(part.tensor)}, part.start, part.bytes,
                        std::string{graph_.name(part.tensor)});
  }
  void add_message(const Transfer& transfer, DeviceId to) {
    std::vector<OpId> readers;
    for (const OpId reader : graph_.consumers(transfer.tensor))
      if (placement_[reader] == to) readers.push_back(reader);
    add_pair(graph_.producer(transfer.tensor), to, std::move(readers), transfer.start, transfer.bytes,
             std::string{graph_.name(transfer.tensor)});
  }
  void add_pair(OpId from, DeviceId to, std::vector<OpId> readers, Nanoseconds at, Bytes bytes, std::string name) {
    const DeviceId source = placement_[from];
    ChakraNode node;
    node.name = std::move(name);
    node.tag = tags_[{source, to}]++;
    node.bytes = std::max<std::int64_t>(1, bytes.count);
    node.source = static_cast<std::int64_t>(source.index());
    node.destination = static_cast<std::int64_t>(to.index());
    node.type = ChakraNode::Type::send;
    issues_[source.index()].push_back({at, 2, from, node, {}});
    node.type = ChakraNode::Type::receive;
    issues_[to.index()].push_back({at, 0, from, node, std::move(readers)});
  }

  ChakraTrace trace_of(std::vector<Issue>& issues) const {
    sort_by(issues, [](const Issue& issue) { return std::tuple{issue.at, issue.kind, issue.op}; });
    ChakraTrace trace{"0.0.4", {}};
    std::map<OpId, std::uint64_t> ids;                    // of the device's ops and collectives
    std::map<OpId, std::vector<std::uint64_t>> arrivals;  // receives and collectives by reader
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < issues.size(); ++i) {
      Issue& issue = issues[i];
      issue.node.id = i + 1;
      for (const OpId reader : issue.readers) arrivals[reader].push_back(issue.node.id);
      if (issue.kind == 1) ids[issue.op] = issue.node.id;
      if (issue.node.type == ChakraNode::Type::compute) {
        if (last != 0) issue.node.data.push_back(last);
        last = issue.node.id;
      }
    }
    for (Issue& issue : issues) {
      if (issue.kind == 2) issue.node.data.push_back(ids.at(issue.op));
      if (issue.node.type == ChakraNode::Type::collective)
        for (const OpId before : graph_.after(issue.op))
          if (const auto id = ids.find(before); id != ids.end()) issue.node.data.push_back(id->second);
      if (issue.kind == 1)
        for (const std::uint64_t arrival : arrivals[issue.op]) issue.node.data.push_back(arrival);
      std::ranges::sort(issue.node.data);
      trace.nodes.push_back(std::move(issue.node));
    }
    if (trace.nodes.empty()) {
      ChakraNode idle;
      idle.name = "idle";
      idle.type = ChakraNode::Type::compute;
      trace.nodes.push_back(std::move(idle));
    }
    return trace;
  }

  const Graph& graph_;
  const Placement& placement_;
  const Timeline& timeline_;
  std::vector<std::vector<Issue>> issues_;                      // by device
  std::map<std::pair<DeviceId, DeviceId>, std::int64_t> tags_;  // next tag
  std::map<std::vector<DeviceId>, std::size_t> groups_;         // numbers, from 1, of groups of some of the devices
};

}  // namespace

std::vector<ChakraTrace> chakra_traces(const Problem& problem, const Placement& placement, const Timeline& timeline) {
  return ChakraSchedule{problem, placement, timeline}.write();
}

}  // namespace trainyard
