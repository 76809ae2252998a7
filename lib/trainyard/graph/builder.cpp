#include "trainyard/graph/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/graph/cycle.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
constexpr std::size_t kMostOps = std::size_t{1} << 31;

/// A graph without a name in a message is "the graph".
std::string calling(const std::string& name) { return name.empty() ? "the graph" : fmt::format("graph '{}'", name); }

/// The checks of one specification, in the order of the file.
class Checker {
 public:
  explicit Checker(const std::vector<OpSpec>& specs) : specs_(specs) {}

  void check_ops() {
    ops.reserve(specs_.size());
    std::size_t outputs = 0;
    for (const OpSpec& op : specs_) outputs += op.outputs.size();
    tensors.reserve(outputs);
    for (std::size_t i = 0; i < specs_.size() && !full(); ++i) check_op(i);
  }

  void check_references() {
    for (std::size_t i = 0; i < specs_.size() && !full(); ++i) {
      const OpSpec& op = specs_[i];
      for (std::size_t k = 0; k < op.inputs.size(); ++k)
        if (!tensors.contains(op.inputs[k]))
          report("unknown-tensor",
                 fmt::format("op '{}' reads tensor '{}', which no op produces", op.name, op.inputs[k]),
                 nearest(op.inputs[k], tensors, "declare it among the outputs of the op that makes it"),
                 fmt::format("/ops/{}/inputs/{}", i, k));
      for (std::size_t k = 0; k < op.after.size(); ++k)
        if (!ops.contains(op.after[k]))
          report("unknown-op",
                 fmt::format("op '{}' must come after '{}', which is no op of the graph", op.name, op.after[k]),
                 nearest(op.after[k], ops, "name an op of this graph"), fmt::format("/ops/{}/after/{}", i, k));
    }
  }

  void report(std::string code, std::string message, std::string help, std::string pointer) {
    if (!full()) findings_.push_back({std::move(code), std::move(message), std::move(help), std::move(pointer), {}});
  }
  void throw_if_any() const {
    if (!findings_.empty()) throw InputError(findings_);
  }

  std::unordered_map<std::string_view, OpId> ops;
  std::unordered_map<std::string_view, TensorId> tensors;

 private:
  bool full() const { return findings_.size() >= kMostFindings; }

  void check_op(std::size_t i) {
    const OpSpec& op = specs_[i];
    const std::string here = fmt::format("/ops/{}", i);
    if (op.name.empty())
      report("missing-name", fmt::format("op {} has no name", i), "give each op a unique \"name\"", here);
    const auto [first, added] = ops.try_emplace(op.name, OpId{i});
    if (!added && !op.name.empty())
      report("duplicate-name",
             fmt::format("two ops are called '{}' (ops {} and {})", op.name, first->second.index(), i),
             "rename one of them", here + "/name");
    if (!std::isfinite(op.flops.value))
      report("not-a-number", fmt::format("\"flops\" of op '{}' must be a finite number", op.name), "", here + "/flops");
    else if (op.flops.value < 0)
      report("negative-flops", fmt::format("\"flops\" of op '{}' must be 0 or more, got {}", op.name, op.flops.value),
             "", here + "/flops");
    check_bytes(op.bytes_accessed, "bytes_accessed", op.name, here, false);
    check_bytes(op.parameter_bytes, "parameter_bytes", op.name, here, true);
    check_bytes(op.state_bytes, "state_bytes", op.name, here, true);
    check_bytes(op.workspace_bytes, "workspace_bytes", op.name, here, true);
    for (std::size_t k = 0; k < op.times.size(); ++k) check_time(op, k, here);
    for (std::size_t k = 0; k < op.outputs.size(); ++k) check_output(op, k, here);
  }

  void check_time(const OpSpec& op, std::size_t k, const std::string& here) {
    const GivenTime& given = op.times[k];
    const std::string at = fmt::format("{}/times_ns/{}", here, pointer_token(given.on));
    if (given.time < Nanoseconds{0})
      report(
          "negative-time",
          fmt::format("the time of op '{}' on '{}' must be 0 or more, got {} ns", op.name, given.on, given.time.count),
          "", at);
    if (given.time > kLongestTime)
      report("too-large", fmt::format("the time of op '{}' on '{}' is over 2^62 ns (146 years)", op.name, given.on), "",
             at);
    for (std::size_t earlier = 0; earlier < k; ++earlier)
      if (op.times[earlier].on == given.on)
        report("duplicate-name", fmt::format("op '{}' gives two times for '{}'", op.name, given.on), "keep one", at);
  }

  void check_output(const OpSpec& op, std::size_t k, const std::string& here) {
    const OutputSpec& output = op.outputs[k];
    const std::string at = fmt::format("{}/outputs/{}", here, k);
    if (output.name.empty())
      report("missing-name", fmt::format("output {} of op '{}' has no name", k, op.name),
             "give each tensor a unique \"name\"", at);
    const auto [first, added] = tensors.try_emplace(output.name, TensorId{tensors.size()});
    if (!added && !output.name.empty())
      report("duplicate-name",
             fmt::format("tensor '{}' is produced twice, the second time by op '{}'", output.name, op.name),
             "rename one of them", at + "/name");
    check_bytes(output.bytes, "bytes", fmt::format("{}' for tensor '{}", op.name, output.name), at, true);
  }

  void check_bytes(Bytes bytes, std::string_view field, const std::string& of, const std::string& here, bool held) {
    const std::string at = fmt::format("{}/{}", here, field);
    if (bytes.count < 0)
      return report("negative-bytes",
                    fmt::format("\"{}\" of op '{}' must be 0 or more, got {}", field, of, bytes.count),
                    "bytes = elements x bytes per element; a negative count looks like a signed overflow", at);
    if (!held) {
      if (bytes.count > kMostBytes)
        report("too-large", fmt::format("\"{}\" of op '{}' is over 2^62", field, of), "", at);
      return;
    }
    if (bytes.count > kMostBytes - held_bytes_) {
      held_bytes_ = 0;  // report each overflow of the sum once, not for every op behind it
      return report("too-large",
                    fmt::format("with \"{}\" of op '{}' the graph holds over 2^62 bytes in all", field, of), "", at);
    }
    held_bytes_ += bytes.count;
  }

  template <class Map>
  static std::string nearest(const std::string& wanted, const Map& known, const std::string& otherwise) {
    std::vector<std::string> names;
    names.reserve(known.size());
    for (const auto& [name, id] : known) names.emplace_back(name);
    std::ranges::sort(names);  // the map's order is not repeatable
    const auto close = nearest_name(wanted, names);
    return close ? fmt::format("did you mean '{}'?", *close) : otherwise;
  }

  const std::vector<OpSpec>& specs_;
  std::vector<Finding> findings_;
  std::int64_t held_bytes_ = 0;
};

[[noreturn]] void throw_cycle(const Graph& graph, const std::vector<OpId>& cycle) {
  std::string path;
  const std::size_t shown = std::min<std::size_t>(cycle.size(), 12);
  for (std::size_t i = 0; i < shown; ++i) path += fmt::format("{} → ", graph.name(cycle[i]));
  if (shown < cycle.size()) path += "… → ";
  path += graph.name(cycle.front());
  throw InputError({"cycle",
                    cycle.size() == 1 ? fmt::format("op '{}' depends on itself", graph.name(cycle.front()))
                                      : fmt::format("{} has a cycle of {} ops, so no schedule exists: {}",
                                                    calling(graph.name()), cycle.size(), path),
                    "remove one of these dependencies",
                    fmt::format("/ops/{}", cycle.front().index()),
                    {}});
}

}  // namespace

OpId GraphBuilder::add(OpSpec op) {
  ops_.push_back(std::move(op));
  return OpId{ops_.size() - 1};
}

Graph GraphBuilder::build() && {
  const std::vector<OpSpec> specs = std::move(ops_);  // freed with this call, not with the builder
  if (specs.empty())
    throw InputError(
        {"empty-graph", fmt::format("{} has no ops", calling(name_)), "a graph needs at least one op", "/ops", {}});
  if (specs.size() > kMostOps)
    throw InputError({"too-large", fmt::format("{} has over 2^31 ops", calling(name_)), "", "/ops", {}});
  Checker checker{specs};
  checker.check_ops();
  checker.throw_if_any();
  checker.check_references();
  checker.throw_if_any();

  Graph graph;
  graph.name_ = std::move(name_);
  const std::size_t count = specs.size();
  graph.device_kind_sets_.push_back({});
  std::map<std::vector<std::string>, std::uint32_t> kind_sets{{{}, 0}};
  const bool any_times = std::ranges::any_of(specs, [](const OpSpec& op) { return !op.times.empty(); });
  graph.first_output_.assign(1, 0);
  std::vector<std::pair<TensorId, OpId>> consumers;
  std::vector<std::pair<OpId, OpId>> before, successors;
  std::vector<TensorId> inputs;
  std::vector<OpId> after;
  IdMap<TensorId, OpId> read_by(checker.tensors.size(), OpId::none());  // the last op, to drop repeated mentions
  IdMap<OpId, OpId> followed_by(count, OpId::none());
  for (std::size_t i = 0; i < count; ++i) {
    const OpSpec& spec = specs[i];
    const OpId op{i};
    graph.op_names_.push_back(spec.name);
    graph.type_.push_back(graph.words_.number(spec.type));
    graph.layer_.push_back(graph.words_.number(spec.layer));
    graph.signature_.push_back(graph.words_.number(spec.signature));
    graph.colocate_.push_back(graph.words_.number(spec.colocate));
    graph.phase_.push_back(spec.phase);
    graph.flops_.push_back(spec.flops);
    graph.bytes_accessed_.push_back(spec.bytes_accessed);
    graph.parameter_bytes_.push_back(spec.parameter_bytes);
    graph.state_bytes_.push_back(spec.state_bytes);
    graph.workspace_bytes_.push_back(spec.workspace_bytes);
    const auto [set, added] = kind_sets.try_emplace(spec.device_kinds, static_cast<std::uint32_t>(kind_sets.size()));
    if (added) graph.device_kind_sets_.push_back(spec.device_kinds);
    graph.device_kinds_.push_back(set->second);
    if (any_times) {
      graph.first_given_time_.push_back(static_cast<std::uint32_t>(graph.given_times_.size()));
      graph.given_times_.insert(graph.given_times_.end(), spec.times.begin(), spec.times.end());
    }
    for (const OutputSpec& output : spec.outputs) {
      graph.tensor_names_.push_back(output.name);
      graph.tensor_bytes_.push_back(output.bytes);
      graph.tensor_kept_.push_back(output.kept ? 1 : 0);
      graph.producer_.push_back(op);
    }
    graph.first_output_.push_back(static_cast<std::uint32_t>(graph.tensor_count()));
    inputs.clear();
    for (const std::string& name : spec.inputs) {
      const TensorId tensor = checker.tensors.at(name);
      if (read_by[tensor] != op) inputs.push_back(tensor);
      read_by[tensor] = op;
    }
    graph.inputs_.append_row(inputs);
    for (const TensorId tensor : inputs) consumers.emplace_back(tensor, op);
    after.clear();
    for (const std::string& name : spec.after) {
      const OpId earlier = checker.ops.at(name);
      if (followed_by[earlier] != op) after.push_back(earlier);
      followed_by[earlier] = op;
    }
    graph.after_.append_row(after);
    for (const OpId earlier : after) before.emplace_back(earlier, op);
  }
  if (any_times) graph.first_given_time_.push_back(static_cast<std::uint32_t>(graph.given_times_.size()));
  graph.consumers_ = CompressedRows<TensorId, OpId>(graph.tensor_count(), consumers);
  graph.before_ = CompressedRows<OpId, OpId>(count, before);

  successors = std::move(before);
  for (const auto& [tensor, consumer] : consumers) successors.emplace_back(graph.producer(tensor), consumer);
  const CompressedRows<OpId, OpId> next(count, successors);
  graph.topological_order_ = topological_sort(next);
  if (graph.topological_order_.size() < count) throw_cycle(graph, find_cycle(next));

  graph.op_names_.shrink_to_fit();
  graph.tensor_names_.shrink_to_fit();
  graph.inputs_.shrink_to_fit();
  graph.after_.shrink_to_fit();
  return graph;
}

}  // namespace trainyard
