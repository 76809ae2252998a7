#include "trainyard/io/chakra/chakra_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace trainyard {
namespace {

std::uint64_t whole_microseconds(Nanoseconds time) { return static_cast<std::uint64_t>((time.count + 500) / 1000); }

/// A node before it has its id: when it is issued, and whom it waits for on its device.
struct Issue {
  Nanoseconds at;
  int kind = 0;  // receives, ops, sends: where they are issued at one time
  OpId op;       // that runs; of a send the producer
  ChakraNode node;
  std::vector<OpId> readers;  // of a receive
};

class ChakraSchedule {
 public:
  ChakraSchedule(const Problem& problem, const Placement& placement, const Timeline& timeline)
      : graph_(problem.graph()), placement_(placement), timeline_(timeline), issues_(problem.device_count()) {}

  std::vector<ChakraTrace> write() {
    for (const OpId op : graph_.ops()) add_op(op);
    for (const Transfer& transfer : timeline_.transfers) {
      add_message(transfer, transfer.to);
      for (const DeviceId to : transfer.also_to) add_message(transfer, to);
    }
    for (const OpId op : graph_.ops())
      for (const OpId before : graph_.after(op))
        if (placement_[before] != placement_[op])
          add_pair(before, placement_[op], {op}, timeline_.ops[before].end, Bytes{1},
                   fmt::format("{} -> {}", graph_.name(before), graph_.name(op)));
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

  static ChakraTrace trace_of(std::vector<Issue>& issues) {
    std::ranges::stable_sort(issues, {}, [](const Issue& issue) { return std::tuple{issue.at, issue.kind, issue.op}; });
    ChakraTrace trace{"0.0.4", {}};
    std::map<OpId, std::uint64_t> ids;                    // of the device's ops
    std::map<OpId, std::vector<std::uint64_t>> arrivals;  // by reader: receives
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < issues.size(); ++i) {
      Issue& issue = issues[i];
      issue.node.id = i + 1;
      if (issue.kind == 0)
        for (const OpId reader : issue.readers) arrivals[reader].push_back(issue.node.id);
      if (issue.kind == 1) {
        if (last != 0) issue.node.data.push_back(last);
        last = ids[issue.op] = issue.node.id;
      }
    }
    for (Issue& issue : issues) {
      if (issue.kind == 2) issue.node.data.push_back(ids.at(issue.op));
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
  std::map<std::pair<DeviceId, DeviceId>, std::int64_t> tags_;  // next one
};

}  // namespace

std::vector<ChakraTrace> chakra_traces(const Problem& problem, const Placement& placement, const Timeline& timeline) {
  return ChakraSchedule{problem, placement, timeline}.write();
}

}  // namespace trainyard
