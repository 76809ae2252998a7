#include "trainyard/io/pytorch/pytorch_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/disjoint_sets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/mapped_file.hpp"
#include "trainyard/io/pytorch/kineto_link.hpp"

namespace trainyard {
namespace {

constexpr std::uint32_t kNoPiece = 0xffffffff;

class StepGraph {
 public:
  StepGraph(const PytorchTrace& trace, const TraceOps& ops, const TraceFlow& flow, const TraceStep& step,
            const std::vector<TraceMessage>& messages, const TraceTimes* times, const std::string& device)
      : trace_(trace),
        ops_(ops),
        flow_(flow),
        times_(times),
        device_(device),
        sets_(flow.pieces.size()),
        first_written_(flow.pieces.size() + 1),
        held_(flow.pieces.size()),
        in_group_(flow.pieces.size()) {
    const auto at = [&](std::int64_t id) {
      return static_cast<std::uint32_t>(
          std::ranges::lower_bound(flow.pieces, id, {},
                                   [&](const TracePiece& piece) { return trace_.nodes[piece.node].id; }) -
          flow.pieces.begin());
    };
    first_ = at(step.first);
    end_ = at(step.last + 1);
    for (const TraceMessage& message : messages) messages_[message.node] = &message;
    for (const TraceFlow::Written& written : flow.written) ++first_written_[written.piece + 1];
    std::partial_sum(first_written_.begin(), first_written_.end(), first_written_.begin());
    has_gpu_ = std::ranges::any_of(trace_.tensors,
                                   [](const TraceTensor& tensor) { return tensor.place == TraceTensor::Place::gpu; });
    shares_ = shares();
    find_residents();
  }

  Graph build(std::string name) {
    GraphBuilder builder{std::move(name)};
    auto read = std::ranges::lower_bound(by_reader(), first_, {}, &TraceRead::to);
    for (std::uint32_t piece = first_; piece < end_; ++piece) {
      OpSpec op = op_of(piece);
      for (; read != reads_.end() && read->to == piece; ++read)
        if (inside(read->from)) op.inputs.push_back(tensor_name(read->from, read->storage));
      builder.add(op);
    }
    return std::move(builder).build();
  }

 private:
  struct Held {
    std::int64_t parameters = 0, states = 0;
  };

  bool inside(std::uint32_t piece) const { return piece >= first_ && piece < end_; }

  /// The reads sorted by reader, one for each (reader, writer, storage).
  std::vector<TraceRead>& by_reader() {
    reads_ = flow_.reads;
    std::ranges::sort(reads_, {}, [](const TraceRead& read) { return std::tuple{read.to, read.from, read.storage}; });
    const auto same = [](const TraceRead& a, const TraceRead& b) {
      return a.to == b.to && a.from == b.from && a.storage == b.storage;
    };
    reads_.erase(std::unique(reads_.begin(), reads_.end(), same), reads_.end());
    return reads_;
  }

  /// Groups the ops that touch one parameter or its state on one device. The last update op that touches it holds it.
  void find_residents() {
    auto touch = flow_.touches.begin();
    for (const TraceFlow::Resident& resident : flow_.residents) {
      resident_.push_back(resident.storage);
      std::uint32_t first = kNoPiece, holder = kNoPiece;
      while (touch != flow_.touches.end() && touch->first < resident.storage) ++touch;
      for (; touch != flow_.touches.end() && touch->first == resident.storage; ++touch) {
        if (!inside(touch->second)) continue;
        if (first == kNoPiece) first = holder = touch->second;
        sets_.join(first, touch->second);
        in_group_[touch->second] = true;
        if (ops_.phase[flow_.pieces[touch->second].node] == Phase::update) holder = touch->second;
      }
      if (holder != kNoPiece) (resident.parameter ? held_[holder].parameters : held_[holder].states) += resident.bytes;
    }
  }

  std::string piece_name(std::uint32_t piece) const {
    const TracePiece& part = flow_.pieces[piece];
    const TraceNode& node = trace_.nodes[part.node];
    std::string name = fmt::format("{}.{}", trace_.name(node), node.id);
    return part.one_of_several ? fmt::format("{}.{}", name, part.element) : name;
  }
  std::span<const TraceFlow::Written> written_by(std::uint32_t piece) const {
    return {flow_.written.data() + first_written_[piece], flow_.written.data() + first_written_[piece + 1]};
  }
  std::string tensor_name(std::uint32_t piece, std::uint32_t storage) const {
    const auto written = written_by(piece);
    const auto at = std::ranges::lower_bound(written, storage, {}, &TraceFlow::Written::storage);
    return fmt::format("{}:{}", piece_name(piece), at - written.begin());
  }

  OpSpec op_of(std::uint32_t piece) {
    const TracePiece& part = flow_.pieces[piece];
    const TraceNode& node = trace_.nodes[part.node];
    OpSpec op{.name = piece_name(piece),
              .type = trace_.name(node),
              .phase = ops_.phase[part.node],
              .signature = trace_.words.word(node.signature)};
    if (const auto message = messages_.find(part.node); message != messages_.end()) describe(*message->second, op);
    if (in_group_[piece])
      op.colocate = fmt::format("parameters of {}", piece_name(static_cast<std::uint32_t>(sets_.find(piece))));
    op.parameter_bytes = Bytes{held_[piece].parameters};
    op.state_bytes = Bytes{held_[piece].states};
    // An op over lists divides the work among its elements by the bytes that they write.
    const auto [from, to, whole] = shares_[piece];
    const auto part_of = [from = from, to = to, whole = whole](std::int64_t total) {
      __extension__ using Wide = __int128;
      return static_cast<std::int64_t>(Wide{total} * to / whole - Wide{total} * from / whole);
    };
    if (part.one_of_several) op.signature.clear();
    op.flops = Flops{node.flops * static_cast<double>(to - from) / static_cast<double>(whole)};
    op.bytes_accessed = Bytes{part_of(bytes_of(node))};
    if (times_)
      op.times.push_back({device_, Nanoseconds{part_of(times_->of_node[part.node].total)}});
    else if (has_gpu_ && on_host(node))
      op.times.push_back({device_, Nanoseconds{0}});
    for (const TraceFlow::Written& written : written_by(piece)) {
      const bool resident = std::ranges::binary_search(resident_, written.storage);
      op.outputs.push_back({tensor_name(piece, written.storage), Bytes{resident ? 0 : written.bytes}});
    }
    return op;
  }

  void describe(const TraceMessage& message, OpSpec& op) const {
    if (!message.kind.empty()) op.type = message.kind;
    op.signature = fmt::format("{} {} B", op.type, message.bytes);
    if (!message.group.empty()) op.signature += fmt::format(", group {}", message.group);
    if (message.group_size > 0) op.signature += fmt::format(" of {}", message.group_size);
  }

  struct Share {
    std::int64_t from = 0, to = 1, whole = 1;
  };
  /// Share of each piece in its node's work, by the bytes that it writes (at least 1).
  std::vector<Share> shares() const {
    std::vector<Share> all(flow_.pieces.size());
    for (std::uint32_t first = 0, end = 0; first < all.size(); first = end) {
      std::int64_t sum = 0;
      for (; end < all.size() && flow_.pieces[end].node == flow_.pieces[first].node; ++end) {
        std::int64_t bytes = 0;
        for (const TraceFlow::Written& written : written_by(end)) bytes += written.bytes;
        all[end].from = std::exchange(sum, sum + std::max<std::int64_t>(1, bytes));
        all[end].to = sum;
      }
      for (std::uint32_t i = first; i < end; ++i) {
        all[i].whole = sum;
        if (!flow_.pieces[i].one_of_several) all[i] = {};
      }
    }
    return all;
  }
  /// Whether all of the op's tensors are on the CPU. Beside a GPU, such an op takes no GPU time.
  bool on_host(const TraceNode& node) const {
    for (std::uint32_t i = node.first_tensor; i < node.end_tensor; ++i)
      if (trace_.tensors[i].place != TraceTensor::Place::cpu) return false;
    return true;
  }
  std::int64_t bytes_of(const TraceNode& node) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    std::int64_t bytes = 0;
    for (std::uint32_t i = node.first_tensor; i < node.end_tensor; ++i)
      bytes = std::min(kMost, bytes + (trace_.tensors[i].end - trace_.tensors[i].begin));
    return bytes;
  }

  const PytorchTrace& trace_;
  const TraceOps& ops_;
  const TraceFlow& flow_;
  const TraceTimes* times_;
  const std::string& device_;
  bool has_gpu_ = false;
  DisjointSets sets_;                       // of pieces
  std::vector<std::size_t> first_written_;  // index into flow_.written, by piece
  std::vector<Share> shares_;               // by piece
  std::vector<Held> held_;                  // by piece
  std::vector<bool> in_group_;
  std::vector<std::uint32_t> resident_;  // storages
  std::vector<TraceRead> reads_;
  std::map<std::uint32_t, const TraceMessage*> messages_;
  std::uint32_t first_ = 0, end_ = 0;  // range of the step's pieces
};

TracedGraph::Step facts_of_step(const PytorchTrace& trace, const TraceOps& ops, const TraceFlow& flow,
                                const TraceTimes* times, const TraceStep& step) {
  TracedGraph::Step facts{.name = step.name};
  for (const std::uint32_t i : ops.kept) {
    if (trace.nodes[i].id < step.first || trace.nodes[i].id > step.last) continue;
    ++facts.ops;
    ++(ops.phase[i] == Phase::forward    ? facts.forward
       : ops.phase[i] == Phase::backward ? facts.backward
                                         : facts.update);
    if (times) facts.gpu_ns += times->of_node[i].total;
  }
  const TraceFlow::Totals totals = flow.between_ops(trace, step.first, step.last);
  facts.edges = totals.edges;
  facts.edge_bytes = totals.bytes;
  return facts;
}

/// Index of the last complete step. If the trace ends within a step, that step lacks the update, or ops that the two
/// before it have.
std::size_t last_whole_step(const std::vector<TracedGraph::Step>& steps) {
  if (steps.size() < 2) return 0;
  const std::size_t last = steps.size() - 1;
  const bool no_update = steps[last].update == 0 && steps[last - 1].update > 0;
  const bool shorter = last > 1 && steps[last].ops < steps[last - 1].ops && steps[last - 1].ops == steps[last - 2].ops;
  return no_update || shorter ? last - 1 : last;
}

void note_link(const TraceTimes& times, const PytorchTrace& trace, const KinetoTrace& kineto, TracedGraph& traced) {
  auto& notes = traced.notes;
  if (!times.same_process)
    notes.push_back(fmt::format(
        "the execution trace is from process {}, the Kineto file from another one: the times are from another run",
        trace.pid));
  if (times.windows > 1)
    notes.push_back(fmt::format(
        "the execution trace matches {} places in the Kineto file: the times are from the last one", times.windows));
  if (times.loose_activities > 0)
    notes.push_back(fmt::format("{} GPU activities ({} ns) were launched by no op: they are left out",
                                times.loose_activities, times.loose));
  if (times.outside_activities > 0)
    notes.push_back(fmt::format("{} GPU activities ({} ns) belong to no event of the trace: they are left out",
                                times.outside_activities, times.outside));
  if (!kineto.devices.empty())
    notes.push_back(fmt::format("times were measured on {}", kineto.devices.begin()->second));
  if (!traced.messages.empty())
    notes.push_back(fmt::format("the times of {} collectives and messages include waiting for other ranks",
                                traced.messages.size()));
}

void note_steps(TracedGraph& traced) {
  const auto& steps = traced.steps;
  if (steps.size() < 2) return;
  const auto alike = [](const TracedGraph::Step& a, const TracedGraph::Step& b) {
    return a.forward == b.forward && a.backward == b.backward && a.update == b.update && a.edges == b.edges;
  };
  std::size_t others = 0;
  for (const TracedGraph::Step& step : steps) others += !alike(step, steps[traced.step]);
  traced.notes.push_back(
      fmt::format("the graph is {}, one of {} steps{}", steps[traced.step].name, steps.size(),
                  others == 0 ? "" : fmt::format(", of which {} have different ops or edges", others)));
}

}  // namespace

TracedGraph traced_graph(const PytorchTrace& trace, const std::string& name, const KinetoTrace* kineto,
                         const std::string& kineto_name, const std::string& device) {
  const TraceCalls calls{trace};
  TraceOps ops = choose_ops(calls);
  std::optional<TraceTimes> times;
  if (kineto) times = link_times(calls, ops, *kineto, kineto_name);
  const std::vector<TraceStep> steps = trace_steps(trace, ops);
  if (steps.empty())
    refuse_file(name, "trace-empty", "the execution trace has no ops that compute", "trace a whole training step");
  const TraceFlow flow = trace_flow(calls, ops);
  const TraceTimes* known = times ? &*times : nullptr;
  TracedGraph traced;
  traced.schema = trace.schema;
  traced.groups = trace.groups;
  traced.nodes = trace.nodes.size();
  traced.whole = facts_of_step(trace, ops, flow, known, {"all", 0, trace.nodes.back().id});
  for (const TraceStep& step : steps) traced.steps.push_back(facts_of_step(trace, ops, flow, known, step));
  traced.step = last_whole_step(traced.steps);
  for (const TraceFlow::Resident& resident : flow.residents) {
    ++(resident.parameter ? traced.parameters : traced.states);
    (resident.parameter ? traced.parameter_bytes : traced.state_bytes) += resident.bytes;
  }
  traced.messages = trace_messages(calls, ops);
  note_steps(traced);
  if (flow.unwritten > 0)
    traced.notes.push_back(counted(flow.unwritten, "op") +
                           " read allocated memory that nothing in the trace has written");
  if (times) {
    note_link(*times, trace, *kineto, traced);
    traced.link = {times->by_record_function,
                   times->same_process,
                   times->nodes,
                   times->linked,
                   times->windows,
                   times->charged,
                   times->loose,
                   times->outside,
                   gpu_times(*kineto),
                   outermost_ops(*kineto)};
  }
  const std::string graph_name = std::string{name}.substr(name.rfind('/') + 1);
  traced.graph = StepGraph{trace, ops, flow, steps[traced.step], traced.messages, known, device}.build(
      graph_name.substr(0, graph_name.find(".json")));
  return traced;
}

TracedGraph read_traced_graph(const std::filesystem::path& trace, const std::filesystem::path& kineto,
                              const std::string& kind) {
  std::string device = "gpu";
  if (!kind.empty()) {
    const DeviceKind* known = find_device_kind(kind);
    if (!known) {
      std::vector<std::string> names;
      for (const DeviceKind& each : device_kinds()) names.push_back(each.name);
      refuse("unknown-kind", fmt::format("no device kind is named '{}'", kind), did_you_mean(kind, names));
    }
    device = known->name;
  }
  std::optional<KinetoTrace> times;
  if (!kineto.empty()) {
    const std::string begin = begin_of_input(kineto);
    if (!begin.empty() && !is_kineto(begin))
      refuse_file(input_name(kineto), "kineto", "this is not a Kineto trace",
                  "give the file that torch.profiler has written (export_chrome_trace) for the same run");
    const MappedFile file{kineto, limits::kInput};
    times = parse_kineto(file.bytes(), input_name(kineto));
  }
  const std::string name = input_name(trace);
  return traced_graph(parse_pytorch_trace(read_input(trace), name), name, times ? &*times : nullptr, input_name(kineto),
                      device);
}

}  // namespace trainyard
