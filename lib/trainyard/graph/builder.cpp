#include "trainyard/graph/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/graph/cycle.hpp"
#include "trainyard/graph/topological_order.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
constexpr std::size_t kMostOps = std::size_t{1} << 31;
constexpr std::size_t kMostNumbered = std::numeric_limits<std::uint32_t>::max();  // by 32 bits

/// Name of the graph in messages; "the graph" if it has none.
std::string calling(const std::string& name) { return name.empty() ? "the graph" : fmt::format("graph '{}'", name); }

std::string at_op(OpId op) { return fmt::format("/ops/{}", op.index()); }

template <class IdType>
std::string nearest(std::string_view wanted, const NameTable<IdType>& known, const std::string& otherwise) {
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const IdType id : IdRange<IdType>{known.size()}) names.emplace_back(known[id]);
  std::ranges::sort(names);
  const auto close = nearest_name(wanted, names);
  return close ? fmt::format("did you mean '{}'?", *close) : otherwise;
}

[[noreturn]] void throw_cycle(const Graph& graph, const std::vector<OpId>& cycle) {
  std::string path;
  const std::size_t shown = std::min<std::size_t>(cycle.size(), 12);
  for (std::size_t i = 0; i < shown; ++i) path += fmt::format("{} → ", graph.name(cycle[i]));
  if (shown < cycle.size()) path += "… → ";
  path += graph.name(cycle.front());
  refuse("cycle",
         cycle.size() == 1 ? fmt::format("op '{}' depends on itself", graph.name(cycle.front()))
                           : fmt::format("{} has a cycle of {} ops, so no schedule exists: {}", calling(graph.name()),
                                         cycle.size(), path),
         "remove one of these dependencies", fmt::format("/ops/{}", cycle.front().index()));
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name) : kind_sets_{{{}, 0}} {
  graph_.name_ = std::move(name);
  graph_.device_kind_sets_.push_back({});
  graph_.first_output_.assign(1, 0);
}

void GraphBuilder::report(std::string code, std::string message, std::string help, std::string pointer) {
  if (!full()) findings_.push_back({std::move(code), std::move(message), std::move(help), std::move(pointer), {}});
}
void GraphBuilder::throw_if_any() {
  if (!findings_.empty()) throw InputError(std::move(findings_));
}

void OpView::clear() {
  OpView empty;
  const auto keep = [](auto& kept, auto& from) {
    from.clear();
    kept.swap(from);
  };
  keep(empty.device_kinds, device_kinds);
  keep(empty.times, times);
  keep(empty.inputs, inputs);
  keep(empty.outputs, outputs);
  keep(empty.after, after);
  *this = std::move(empty);
}

OpId GraphBuilder::add(const OpSpec& op) {
  view_.clear();
  view_.name = op.name;
  view_.type = op.type;
  view_.layer = op.layer;
  view_.signature = op.signature;
  view_.colocate = op.colocate;
  view_.phase = op.phase;
  view_.flops = op.flops;
  view_.bytes_accessed = op.bytes_accessed;
  view_.parameter_bytes = op.parameter_bytes;
  view_.state_bytes = op.state_bytes;
  view_.workspace_bytes = op.workspace_bytes;
  view_.device_kinds.assign(op.device_kinds.begin(), op.device_kinds.end());
  for (const GivenTime& given : op.times) view_.times.push_back({given.on, given.time});
  view_.inputs.assign(op.inputs.begin(), op.inputs.end());
  for (const OutputSpec& output : op.outputs)
    view_.outputs.push_back({output.name, output.bytes, output.kept, output.statistics});
  view_.after.assign(op.after.begin(), op.after.end());
  view_.collective = op.collective;
  return add_view(view_);
}

OpId GraphBuilder::add_view(const OpView& view) {
  const OpId op{graph_.op_count()};
  graph_.op_names_.push_back(view.name);
  const OpId same_name = op_index_.insert(graph_.op_names_, op);
  if (!full()) check(view, op, same_name);
  // Most words equal those of the previous op.
  const auto number = [&](std::string_view word, Column<OpId, std::uint32_t>& column) {
    const std::uint32_t before = op.index() == 0 ? 0 : column[OpId{op.index() - 1}];
    column.push_back(graph_.words_.word(before) == word ? before : graph_.words_.number(word));
  };
  number(view.type, graph_.type_);
  number(view.layer, graph_.layer_);
  number(view.signature, graph_.signature_);
  number(view.colocate, graph_.colocate_);
  graph_.phase_.push_back(view.phase);
  graph_.flops_.push_back(view.flops);
  graph_.bytes_accessed_.push_back(view.bytes_accessed);
  graph_.parameter_bytes_.push_back(view.parameter_bytes);
  graph_.state_bytes_.push_back(view.state_bytes);
  graph_.workspace_bytes_.push_back(view.workspace_bytes);
  graph_.device_kinds_.push_back(view.device_kinds.empty() ? 0 : kind_set(view));
  if (view.collective) graph_.collectives_.push_back(*view.collective);
  graph_.collective_.push_back(view.collective ? static_cast<std::uint32_t>(graph_.collectives_.size()) : 0);
  if (!view.times.empty() && !any_times_) {
    any_times_ = true;
    graph_.first_given_time_.assign(op.index(), 0);
  }
  if (any_times_) {
    graph_.first_given_time_.push_back(static_cast<std::uint32_t>(graph_.given_times_.size()));
    for (const OpView::Time& given : view.times) graph_.given_times_.push_back({std::string{given.on}, given.time});
  }
  for (std::size_t k = 0; k < view.outputs.size(); ++k) add_output(view, op, k);
  graph_.first_output_.push_back(static_cast<std::uint32_t>(graph_.tensor_count()));
  for (const std::string_view input : view.inputs) inputs_.push_back(input);
  first_input_.push_back(static_cast<std::uint32_t>(inputs_.size()));
  for (const std::string_view earlier : view.after) after_.push_back(earlier);
  first_after_.push_back(static_cast<std::uint32_t>(after_.size()));
  return op;
}

std::uint32_t GraphBuilder::kind_set(const OpView& op) {
  const auto [set, added] = kind_sets_.try_emplace({op.device_kinds.begin(), op.device_kinds.end()},
                                                   static_cast<std::uint32_t>(kind_sets_.size()));
  if (added) graph_.device_kind_sets_.push_back(set->first);
  return set->second;
}

void GraphBuilder::add_output(const OpView& view, OpId op, std::size_t number) {
  const OpView::Output& output = view.outputs[number];
  const TensorId tensor{graph_.tensor_count()};
  graph_.tensor_names_.push_back(output.name);
  graph_.tensor_bytes_.push_back(output.bytes);
  graph_.tensor_kind_.push_back(
      static_cast<std::uint8_t>((output.kept ? Graph::kKept : 0) | (output.statistics ? Graph::kStatistics : 0)));
  graph_.producer_.push_back(op);
  const TensorId same_name = tensor_index_.insert(graph_.tensor_names_, tensor);
  if (full()) return;
  if (output.name.empty())
    report("missing-name", fmt::format("output {} of op '{}' has no name", number, view.name),
           "give each tensor a unique \"name\"", fmt::format("{}/outputs/{}", at_op(op), number));
  else if (!same_name.is_none())
    report("duplicate-name",
           fmt::format("tensor '{}' is produced twice, the second time by op '{}'", output.name, view.name),
           "rename one of them", fmt::format("{}/outputs/{}/name", at_op(op), number));
  check_bytes(output.bytes, "bytes", view, &output, op, number, true);
}

// --- checks: messages are only formatted for errors ---

void GraphBuilder::check(const OpView& op, OpId id, OpId same_name) {
  if (op.name.empty())
    report("missing-name", fmt::format("op {} has no name", id.index()), "give each op a unique \"name\"", at_op(id));
  else if (!same_name.is_none())
    report("duplicate-name",
           fmt::format("two ops are called '{}' (ops {} and {})", op.name, same_name.index(), id.index()),
           "rename one of them", at_op(id) + "/name");
  if (!std::isfinite(op.flops.value))
    report("not-a-number", fmt::format("\"flops\" of op '{}' must be a finite number", op.name), "",
           at_op(id) + "/flops");
  else if (op.flops.value < 0)
    report("negative-flops", fmt::format("\"flops\" of op '{}' must be 0 or more, got {}", op.name, op.flops.value), "",
           at_op(id) + "/flops");
  check_bytes(op.bytes_accessed, "bytes_accessed", op, nullptr, id, 0, false);
  check_bytes(op.parameter_bytes, "parameter_bytes", op, nullptr, id, 0, true);
  check_bytes(op.state_bytes, "state_bytes", op, nullptr, id, 0, true);
  check_bytes(op.workspace_bytes, "workspace_bytes", op, nullptr, id, 0, true);
  if (op.collective) check_collective(op, id);
  const bool plain = op.times.empty() ||
                     (op.times.size() == 1 && op.times[0].time >= Nanoseconds{0} && op.times[0].time <= kLongestTime);
  if (!plain) check_times(op, at_op(id));
}

void GraphBuilder::check_collective(const OpView& op, OpId id) {
  const std::string at = at_op(id) + "/collective";
  const Bytes bytes = op.collective->bytes;
  if (bytes.count < 0)
    report("negative-bytes",
           fmt::format("\"bytes\" of the collective '{}' must be 0 or more, got {}", op.name, bytes.count),
           "give the size of the whole array", at + "/bytes");
  else if (bytes.count > kMostBytes)
    report("too-large", fmt::format("\"bytes\" of the collective '{}' is over 2^62", op.name), "", at + "/bytes");
  if (op.collective->ranks < 1 || op.collective->stride < 1)
    report("collective",
           fmt::format("the collective '{}' has {} ranks with a stride of {} devices", op.name, op.collective->ranks,
                       op.collective->stride),
           "give 1 or more for both; leave them out if the graph has every rank", at);
  const Bytes held = op.bytes_accessed + op.parameter_bytes + op.state_bytes + op.workspace_bytes;
  if (!op.inputs.empty() || !op.outputs.empty() || !op.times.empty() || op.flops.value != 0 || held.count != 0)
    report("collective", fmt::format("'{}' is a collective: no device runs it or holds its data", op.name),
           "leave out its inputs, outputs, times, FLOPs and bytes; its members (the ops after it) read and make the "
           "tensors",
           at);
  if (op.after.empty())
    report("collective", fmt::format("no op comes before the collective '{}'", op.name),
           "name the ops that make the ranks' arrays in \"after\"", at);
}

/// A member holds one tensor from the start of its collective.
void GraphBuilder::check_members() {
  for (const OpId op : graph_.ops())
    for (const OpId earlier : graph_.after_[op]) {
      if (full() || graph_.collective_[earlier] == 0) continue;
      const std::size_t made = graph_.first_output_[op.index() + 1] - graph_.first_output_[op.index()];
      const OpId first = graph_.member_of(op);
      std::string wrong;
      if (graph_.collective_[op] != 0)
        wrong = "is a collective itself";
      else if (made > 1)
        wrong = fmt::format("makes {} tensors", made);
      else if (first != earlier)
        wrong = fmt::format("also comes after '{}'", graph_.name(first));
      if (!wrong.empty())
        report("collective",
               fmt::format("op '{}' comes after the collective '{}', but {}", graph_.name(op), graph_.name(earlier),
                           wrong),
               "give each collective its own members, each with one tensor; other ops can read these tensors",
               at_op(op));
    }
}

void GraphBuilder::check_times(const OpView& op, const std::string& here) {
  std::set<std::string_view> named;
  for (const OpView::Time& given : op.times) {
    const auto at = [&] { return fmt::format("{}/times_ns/{}", here, pointer_token(given.on)); };
    if (given.time < Nanoseconds{0})
      report(
          "negative-time",
          fmt::format("the time of op '{}' on '{}' must be 0 or more, got {} ns", op.name, given.on, given.time.count),
          "", at());
    if (given.time > kLongestTime)
      report("too-large", fmt::format("the time of op '{}' on '{}' is over 2^62 ns (146 years)", op.name, given.on), "",
             at());
    if (!named.insert(given.on).second)
      report("duplicate-name", fmt::format("op '{}' gives two times for '{}'", op.name, given.on), "keep one", at());
  }
}

void GraphBuilder::check_bytes(Bytes bytes, std::string_view field, const OpView& op, const OpView::Output* output,
                               OpId id, std::size_t output_number, bool held) {
  const bool sum_too_large = held && bytes.count > kMostBytes - held_bytes_;
  if (bytes.count >= 0 && !sum_too_large && (held || bytes.count <= kMostBytes)) {
    if (held) held_bytes_ += bytes.count;
    return;
  }
  const std::string of =
      output == nullptr ? std::string{op.name} : fmt::format("{}' for tensor '{}", op.name, output->name);
  const std::string at = output == nullptr ? fmt::format("{}/{}", at_op(id), field)
                                           : fmt::format("{}/outputs/{}/{}", at_op(id), output_number, field);
  if (bytes.count < 0)
    return report("negative-bytes", fmt::format("\"{}\" of op '{}' must be 0 or more, got {}", field, of, bytes.count),
                  "bytes = elements x bytes per element; a negative count looks like a signed overflow", at);
  if (!held) return report("too-large", fmt::format("\"{}\" of op '{}' is over 2^62", field, of), "", at);
  held_bytes_ = 0;  // report each overflow of the sum once, not for every later op
  report("too-large", fmt::format("with \"{}\" of op '{}' the graph holds over 2^62 bytes in all", field, of), "", at);
}

// --- references ---

void GraphBuilder::resolve(Edges& edges) {
  edges.consumers.reserve(inputs_.size());
  IdMap<TensorId, OpId> read_by(graph_.tensor_count(), OpId::none());  // last reader seen, to drop repeated mentions
  IdMap<OpId, OpId> followed_by(graph_.op_count(), OpId::none());
  std::vector<TensorId> inputs;
  std::vector<OpId> after;
  for (const OpId op : graph_.ops()) {
    if (full()) return;
    inputs.clear();
    const std::uint32_t first_input = first_input_[op.index()], first_after = first_after_[op.index()];
    for (std::uint32_t i = first_input; i < first_input_[op.index() + 1]; ++i) {
      const std::string_view name = inputs_[MentionId{i}];
      const TensorId tensor = tensor_index_.find(graph_.tensor_names_, name);
      if (tensor.is_none()) {
        report("unknown-tensor", fmt::format("op '{}' reads tensor '{}', which no op produces", graph_.name(op), name),
               nearest(name, graph_.tensor_names_, "declare it among the outputs of the op that makes it"),
               fmt::format("{}/inputs/{}", at_op(op), i - first_input));
        continue;
      }
      if (read_by[tensor] != op) inputs.push_back(tensor);
      read_by[tensor] = op;
    }
    graph_.inputs_.append_row(inputs);
    for (const TensorId tensor : inputs) edges.consumers.emplace_back(tensor, op);
    after.clear();
    for (std::uint32_t i = first_after; i < first_after_[op.index() + 1]; ++i) {
      const std::string_view name = after_[MentionId{i}];
      const OpId earlier = op_index_.find(graph_.op_names_, name);
      if (earlier.is_none()) {
        report("unknown-op",
               fmt::format("op '{}' must come after '{}', which is not an op of the graph", graph_.name(op), name),
               nearest(name, graph_.op_names_, "name an op of this graph"),
               fmt::format("{}/after/{}", at_op(op), i - first_after));
        continue;
      }
      if (followed_by[earlier] != op) after.push_back(earlier);
      followed_by[earlier] = op;
    }
    graph_.after_.append_row(after);
    for (const OpId earlier : after) edges.before.emplace_back(earlier, op);
  }
}

/// If every edge leads to a higher id, the ids are already in topological order.
void GraphBuilder::find_order(Edges edges) {
  const std::size_t count = graph_.op_count();
  const bool in_order =
      std::ranges::all_of(edges.consumers, [&](const auto& e) { return graph_.producer(e.first) < e.second; }) &&
      std::ranges::all_of(edges.before, [](const auto& e) { return e.first < e.second; });
  if (in_order) {
    graph_.topological_order_.assign(graph_.ops().begin(), graph_.ops().end());
    return;
  }
  std::vector<std::pair<OpId, OpId>> successors = std::move(edges.before);
  for (const auto& [tensor, consumer] : edges.consumers) successors.emplace_back(graph_.producer(tensor), consumer);
  const CompressedRows<OpId, OpId> next(count, successors);
  graph_.topological_order_ = topological_order<OpId>(count, successors_in(next));
  if (graph_.topological_order_.size() < count) throw_cycle(graph_, find_cycle(next));
}

Graph GraphBuilder::build() && {
  GraphBuilder own = std::exchange(*this, GraphBuilder{});  // freed by this call, not with the builder
  return own.finish();
}

Graph GraphBuilder::finish() {
  const std::size_t count = graph_.op_count();
  if (count == 0)
    refuse("empty-graph", fmt::format("{} has no ops", calling(graph_.name_)), "add at least one op", "/ops");
  if (count > kMostOps) refuse("too-large", fmt::format("{} has over 2^31 ops", calling(graph_.name_)), "", "/ops");
  const auto check_count = [&](std::size_t entries, const char* what) {
    if (entries > kMostNumbered)
      refuse("too-large", fmt::format("{} has 2^32 {} or more", calling(graph_.name_), what),
             "give a part of the graph, or shorter names", "/ops");
  };
  check_count(graph_.op_names_.text_bytes(), "bytes of op names");
  check_count(graph_.tensor_names_.text_bytes(), "bytes of tensor names");
  check_count(inputs_.text_bytes(), "bytes of names of inputs");
  check_count(after_.text_bytes(), "bytes of names of ops that come first");
  check_count(graph_.tensor_count(), "tensors");
  check_count(inputs_.size() + after_.size(), "inputs and dependencies");
  check_count(graph_.given_times_.size(), "times");
  throw_if_any();
  Edges edges;
  resolve(edges);
  if (graph_.has_collectives()) check_members();
  throw_if_any();
  op_index_ = {};
  tensor_index_ = {};
  inputs_ = after_ = {};
  if (any_times_) graph_.first_given_time_.push_back(static_cast<std::uint32_t>(graph_.given_times_.size()));
  graph_.consumers_ = CompressedRows<TensorId, OpId>(graph_.tensor_count(), edges.consumers);
  graph_.before_ = CompressedRows<OpId, OpId>(count, edges.before);
  find_order(std::move(edges));
  graph_.op_names_.shrink_to_fit();
  graph_.tensor_names_.shrink_to_fit();
  graph_.inputs_.shrink_to_fit();
  graph_.after_.shrink_to_fit();
  return std::move(graph_);
}

}  // namespace trainyard
